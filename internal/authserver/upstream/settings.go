package upstream

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/oauth"
)

// settings is what both types of provider have in common, completed by defaults and by the
// presets of well-known providers.
type settings struct {
	clientID string
	secret   *externalauth.SecretRef
	dcr      *externalauth.DCR
	// scopes is nil where those of the metadata are requested.
	scopes []string
	// params are additional parameters of the authorization request.
	params    map[string]string
	userInfo  *externalauth.UserInfo
	method    string // of client authentication; "" is as the metadata names
	endpoints []string
}

func oidcSettings(c *externalauth.OIDC) settings {
	s := settings{
		clientID: c.ClientID, secret: c.ClientSecretRef, scopes: c.Scopes, params: maps.Clone(c.AdditionalAuthorizationParams),
		userInfo: c.UserInfoOverride, endpoints: []string{c.IssuerURL},
	}
	known := oauth.PresetOf(c.IssuerURL)
	if len(s.scopes) == 0 {
		s.scopes = []string{"openid", oauth.OfflineAccess}
		if known.NoOffline {
			s.scopes = []string{"openid"}
		}
	}
	if !slices.Contains(s.scopes, "openid") { // OpenID Connect Core 1.0 section 3.1.2.1
		s.scopes = append([]string{"openid"}, s.scopes...)
	}
	s.apply(known)
	return s
}

func oauth2Settings(c *externalauth.OAuth2) settings {
	s := settings{
		clientID: c.ClientID, secret: c.ClientSecretRef, dcr: c.DCR, scopes: c.Scopes, params: maps.Clone(c.AdditionalAuthorizationParams),
		userInfo: c.UserInfo, endpoints: []string{c.AuthorizationEndpoint, c.TokenEndpoint},
	}
	s.apply(oauth.PresetOf(c.AuthorizationEndpoint))
	return s
}

// apply adds parameters that the configuration does not set. One that it sets to "" is not
// sent.
func (s *settings) apply(known oauth.Preset) {
	params := known.AuthorizationParams(s.scopes)
	maps.Copy(params, s.params)
	maps.DeleteFunc(params, func(_, value string) bool { return value == "" })
	s.params, s.method = params, known.Method
}

func (s *settings) needsSecret() bool {
	return s.secret != nil || s.dcr != nil && s.dcr.InitialAccessTokenRef != nil
}

// urls are those of the configuration to which requests may be sent.
func (s *settings) urls() []string {
	urls := slices.Clone(s.endpoints)
	if s.userInfo != nil {
		urls = append(urls, s.userInfo.EndpointURL)
	}
	if s.dcr != nil {
		urls = append(urls, s.dcr.DiscoveryURL, s.dcr.RegistrationEndpoint)
	}
	return urls
}

// hosts are those of urls.
func (s *settings) hosts() []string {
	var hosts []string
	for _, raw := range s.urls() {
		if host := hostOf(raw); host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// hostOf is the host of a URL without the port, in lower case; "" for none.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// fieldMapping is where userinfo has what identifies the person. GitHub's has no sub.
func fieldMapping(u *externalauth.UserInfo) externalauth.FieldMapping {
	var f externalauth.FieldMapping
	if u.FieldMapping != nil {
		f = *u.FieldMapping
	}
	subject, name := []string{"sub"}, []string{"name"}
	if hostOf(u.EndpointURL) == "api.github.com" {
		subject, name = []string{"id"}, []string{"name", "login"}
	}
	if len(f.SubjectFields) == 0 {
		f.SubjectFields = subject
	}
	if len(f.NameFields) == 0 {
		f.NameFields = name
	}
	if len(f.EmailFields) == 0 {
		f.EmailFields = []string{"email"}
	}
	return f
}
