package externalauth

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of lists, in items, and of texts, in characters.
const (
	maxSigningKeys    = 5
	maxProviders      = 32 // the API server bounds the cost of the rules of a list
	maxBaselineScopes = 10
	maxParams         = 16
	maxPath           = 256
	maxSubjectClaim   = 128
	maxDCRURL         = 2048
	maxSoftwareID     = 255
	maxStatement      = 16384
)

func (x *EmbeddedAuthServer) validate(c *checker, field string) {
	c.issuer(field+".issuer", x.Issuer)
	if x.AuthorizationEndpointBaseURL != "" {
		c.issuer(field+".authorizationEndpointBaseUrl", x.AuthorizationEndpointBaseURL)
	}
	c.atMost(field+".baselineClientScopes", len(x.BaselineClientScopes), maxBaselineScopes, "scopes")
	c.scopes(field+".baselineClientScopes", x.BaselineClientScopes)
	c.atMost(field+".signingKeySecretRefs", len(x.SigningKeySecretRefs), maxSigningKeys, "keys")
	for i := range x.SigningKeySecretRefs {
		c.secret(fmt.Sprintf("%s.signingKeySecretRefs[%d]", field, i), &x.SigningKeySecretRefs[i])
	}
	for i := range x.HMACSecretRefs {
		c.secret(fmt.Sprintf("%s.hmacSecretRefs[%d]", field, i), &x.HMACSecretRefs[i])
	}
	if x.Storage != nil {
		x.Storage.validate(c, field+".storage")
	}
	if x.TokenLifespans != nil {
		x.TokenLifespans.validate(c, field+".tokenLifespans")
	}
	if len(x.UpstreamProviders) == 0 {
		c.add(field+".upstreamProviders", "at least one is required")
	}
	c.atMost(field+".upstreamProviders", len(x.UpstreamProviders), maxProviders, "providers")
	var names []string
	for i := range x.UpstreamProviders {
		u, at := &x.UpstreamProviders[i], fmt.Sprintf("%s.upstreamProviders[%d]", field, i)
		c.providerName(at+".name", u.Name)
		if u.Name != "" && slices.Contains(names, u.Name) {
			c.add(at+".name", "%q is the name of another provider", u.Name)
		}
		names = append(names, u.Name)
		u.validate(c, at)
	}
	if p := x.PrimaryUpstreamProvider; p != "" && !slices.Contains(names, p) {
		c.add(field+".primaryUpstreamProvider", "there is no upstream provider %q", p)
	}
}

func (x *TokenLifespans) validate(c *checker, field string) {
	c.duration(field+".accessTokenLifespan", x.AccessToken, time.Minute, 24*time.Hour)
	c.duration(field+".refreshTokenLifespan", x.RefreshToken, time.Hour, 720*time.Hour)
	c.duration(field+".authCodeLifespan", x.AuthCode, 30*time.Second, 10*time.Minute)
}

// duration checks a duration within bounds; "" is a default.
func (c *checker) duration(field, text string, least, most time.Duration) {
	if text == "" {
		return
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil || !durationPattern.MatchString(text):
		c.add(field, "%q is not a duration such as 30s, 10m or 168h", text)
	case d < least || d > most:
		c.add(field, "is %s; it must be %s to %s", text, short(least), short(most))
	}
}

// short is a duration without parts that are zero.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (x *Storage) validate(c *checker, field string) {
	switch x.Type {
	case "", "memory":
		if x.Redis != nil {
			c.add(field+".redis", "must be absent, because type is memory")
		}
	case "redis":
		if x.Redis == nil {
			c.add(field+".redis", "is required, because type is redis")
		}
	default:
		c.oneOf(field+".type", x.Type, "memory", "redis")
	}
	if x.Redis != nil {
		x.Redis.validate(c, field+".redis")
	}
}

func (x *Redis) validate(c *checker, field string) {
	c.exactlyOne(field, "addr", x.Addr != "", "sentinelConfig", x.SentinelConfig != nil)
	if x.Addr != "" {
		c.check(field+".addr", hostPort(x.Addr))
	}
	if x.ClusterMode && x.Addr == "" {
		c.add(field+".clusterMode", "needs addr")
	}
	if s := x.SentinelConfig; s != nil {
		s.validate(c, field+".sentinelConfig")
	}
	if x.SentinelTLS != nil && x.SentinelConfig == nil {
		c.add(field+".sentinelTls", "needs sentinelConfig")
	}
	if u := x.ACLUserConfig; u == nil {
		c.add(field+".aclUserConfig", "is required")
	} else {
		c.secret(field+".aclUserConfig.passwordSecretRef", u.PasswordSecretRef)
		c.optionalSecret(field+".aclUserConfig.usernameSecretRef", u.UsernameSecretRef)
	}
	if x.TLS != nil {
		c.optionalSecret(field+".tls.caCertSecretRef", x.TLS.CACertSecretRef)
	}
	if x.SentinelTLS != nil {
		c.optionalSecret(field+".sentinelTls.caCertSecretRef", x.SentinelTLS.CACertSecretRef)
	}
	const least, most = time.Millisecond, 10 * time.Minute
	c.duration(field+".dialTimeout", x.DialTimeout, least, most)
	c.duration(field+".readTimeout", x.ReadTimeout, least, most)
	c.duration(field+".writeTimeout", x.WriteTimeout, least, most)
}

func (x *Sentinel) validate(c *checker, field string) {
	c.required(field+".masterName", x.MasterName)
	if x.DB < 0 {
		c.add(field+".db", "is %d; it must be at least 0", x.DB)
	}
	c.exactlyOne(field, "sentinelAddrs", len(x.Addrs) > 0, "sentinelService", x.Service != nil)
	for i, a := range x.Addrs {
		c.check(fmt.Sprintf("%s.sentinelAddrs[%d]", field, i), hostPort(a))
	}
	if s := x.Service; s != nil {
		c.required(field+".sentinelService.name", s.Name)
		if s.Port != nil && (*s.Port < 1 || *s.Port > 65535) {
			c.add(field+".sentinelService.port", "is %d; it must be 1 to 65535", *s.Port)
		}
	}
}

func (x *UpstreamProvider) validate(c *checker, field string) {
	switch x.Type {
	case UpstreamOIDC:
		c.union(field, x.Type, "oidcConfig", x.OIDC != nil, "oauth2Config", x.OAuth2 != nil)
	case UpstreamOAuth2:
		c.union(field, x.Type, "oauth2Config", x.OAuth2 != nil, "oidcConfig", x.OIDC != nil)
	default:
		c.oneOf(field+".type", x.Type, UpstreamOIDC, UpstreamOAuth2)
	}
	if x.OIDC != nil {
		x.OIDC.validate(c, field+".oidcConfig")
	}
	if x.OAuth2 != nil {
		x.OAuth2.validate(c, field+".oauth2Config")
	}
}

// union checks that the member of a type is set, and the other one is not.
func (c *checker) union(field, typ, member string, hasMember bool, other string, hasOther bool) {
	if !hasMember {
		c.add(field+"."+member, "is required, because type is %s", typ)
	}
	if hasOther {
		c.add(field+"."+other, "must be absent, because type is %s", typ)
	}
}

func (x *OIDC) validate(c *checker, field string) {
	c.httpsOnly(field+".issuerUrl", x.IssuerURL)
	c.required(field+".clientId", x.ClientID)
	c.optionalSecret(field+".clientSecretRef", x.ClientSecretRef)
	c.redirect(field+".redirectUri", x.RedirectURI)
	c.scopes(field+".scopes", x.Scopes)
	c.params(field+".additionalAuthorizationParams", x.AdditionalAuthorizationParams)
	if x.UserInfoOverride != nil {
		x.UserInfoOverride.validate(c, field+".userInfoOverride")
	}
	if len(x.SubjectClaim) > maxSubjectClaim || !claimPattern.MatchString(x.SubjectClaim) {
		c.add(field+".subjectClaim", "%.150q is not a name of a claim", x.SubjectClaim)
	}
}

func (x *OAuth2) validate(c *checker, field string) {
	c.endpoint(field+".authorizationEndpoint", x.AuthorizationEndpoint)
	c.endpoint(field+".tokenEndpoint", x.TokenEndpoint)
	c.exactlyOne(field, "clientId", x.ClientID != "", "dcrConfig", x.DCR != nil)
	c.optionalSecret(field+".clientSecretRef", x.ClientSecretRef)
	if d := x.DCR; d != nil {
		if x.ClientSecretRef != nil {
			c.add(field+".clientSecretRef", "must be absent with dcrConfig: registration results in a secret")
		}
		d.validate(c, field+".dcrConfig")
		if d.RegistrationEndpoint != "" && len(x.Scopes) == 0 {
			c.add(field+".scopes", "is required with dcrConfig.registrationEndpoint: nothing else names the scopes")
		}
	}
	c.redirect(field+".redirectUri", x.RedirectURI)
	c.scopes(field+".scopes", x.Scopes)
	c.params(field+".additionalAuthorizationParams", x.AdditionalAuthorizationParams)
	if x.UserInfo != nil {
		x.UserInfo.validate(c, field+".userInfo")
	}
	if i := x.IdentityFromToken; i != nil {
		at := field + ".identityFromToken"
		if c.required(at+".subjectPath", i.SubjectPath) {
			c.check(at+".subjectPath", path(i.SubjectPath))
		}
		c.check(at+".namePath", path(i.NamePath))
		c.check(at+".emailPath", path(i.EmailPath))
	}
	if m := x.TokenResponseMapping; m != nil {
		at := field + ".tokenResponseMapping"
		if c.required(at+".accessTokenPath", m.AccessTokenPath) {
			c.check(at+".accessTokenPath", path(m.AccessTokenPath))
		}
		c.check(at+".refreshTokenPath", path(m.RefreshTokenPath))
		c.check(at+".expiresInPath", path(m.ExpiresInPath))
		c.check(at+".scopePath", path(m.ScopePath))
	}
}

// path is an error for text that is no dot path; "" is a default.
func path(text string) error {
	if text != "" && (utf8.RuneCountInString(text) > maxPath || slices.Contains(strings.Split(text, "."), "")) {
		return fmt.Errorf("%.300q is not a path such as authed_user.id or accounts.0.name", text)
	}
	return nil
}

func (x *DCR) validate(c *checker, field string) {
	c.exactlyOne(field, "discoveryUrl", x.DiscoveryURL != "", "registrationEndpoint", x.RegistrationEndpoint != "")
	for name, url := range map[string]string{"discoveryUrl": x.DiscoveryURL, "registrationEndpoint": x.RegistrationEndpoint} {
		if url == "" {
			continue
		}
		c.atMost(field+"."+name, utf8.RuneCountInString(url), maxDCRURL, "characters")
		if c.httpsOnly(field+"."+name, url) {
			c.ends(field+"."+name, url)
		}
	}
	c.optionalSecret(field+".initialAccessTokenRef", x.InitialAccessTokenRef)
	c.atMost(field+".softwareId", utf8.RuneCountInString(x.SoftwareID), maxSoftwareID, "characters")
	c.atMost(field+".softwareStatement", utf8.RuneCountInString(x.SoftwareStatement), maxStatement, "characters")
	if s := x.SoftwareStatement; s != "" && strings.Count(s, ".") != 2 {
		c.add(field+".softwareStatement", "is not a signed JWT (RFC 7591 section 2.3)")
	}
}

func (x *UserInfo) validate(c *checker, field string) {
	c.endpoint(field+".endpointUrl", x.EndpointURL)
	if x.HTTPMethod != "" {
		c.oneOf(field+".httpMethod", x.HTTPMethod, "GET", "POST")
	}
	for _, name := range slices.Sorted(maps.Keys(x.AdditionalHeaders)) {
		at := fmt.Sprintf("%s.additionalHeaders[%s]", field, name)
		if strings.EqualFold(name, "Authorization") {
			c.add(at, "has the token, and cannot be set")
			continue
		}
		c.check(at, requestHeader(name))
		c.check(at, headerValue(x.AdditionalHeaders[name]))
	}
}

// reservedParams are set by the authorization request itself (RFC 6749 section 4.1.1, RFC
// 7636 section 4.3, OpenID Connect Core section 3.1.2.1), or replace all its parameters (RFC
// 9101 section 5).
var reservedParams = []string{
	"response_type", "client_id", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method", "nonce",
	"request", "request_uri",
}

func (c *checker) params(field string, params map[string]string) {
	c.atMost(field, len(params), maxParams, "parameters")
	for _, name := range slices.Sorted(maps.Keys(params)) {
		switch {
		case name == "":
			c.add(field, "a parameter must have a name")
		case slices.Contains(reservedParams, name):
			c.add(field, "%s is set by the gateway, and cannot be given", name)
		}
	}
}
