// Package externalauth has the spec of the resource MCPExternalAuthConfig and its one
// validation: how clients of a tool server are authenticated by an authorization server of
// the gateway's own, or how the gateway authenticates at the tool server. It imports nothing
// of Kubernetes. The command line, the gateway at its start and the operator use the same
// types and the same rules.
package externalauth

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Spec is the spec of an MCPExternalAuthConfig. Exactly the member that Type names is set;
// [Unauthenticated] has none.
type Spec struct {
	Type               Type                `json:"type"`
	TokenExchange      *TokenExchange      `json:"tokenExchange,omitempty"`
	HeaderInjection    *HeaderInjection    `json:"headerInjection,omitempty"`
	BearerToken        *BearerToken        `json:"bearerToken,omitempty"`
	EmbeddedAuthServer *EmbeddedAuthServer `json:"embeddedAuthServer,omitempty"`
	AWSSTS             *AWSSTS             `json:"awsSts,omitempty"`
	UpstreamInject     *UpstreamInject     `json:"upstreamInject,omitempty"`
}

// Type is the kind of a Spec.
type Type string

// The types.
const (
	TypeTokenExchange      Type = "tokenExchange"
	TypeHeaderInjection    Type = "headerInjection"
	TypeBearerToken        Type = "bearerToken"
	TypeUnauthenticated    Type = "unauthenticated"
	TypeEmbeddedAuthServer Type = "embeddedAuthServer"
	TypeAWSSTS             Type = "awsSts"
	TypeUpstreamInject     Type = "upstreamInject"
)

// Outgoing reports whether s is about requests to the tool server, and not about its clients.
func (s *Spec) Outgoing() bool { return s.Type != TypeEmbeddedAuthServer }

// SecretRef refers to one value of a secret: NAME/KEY in the local store, or a key of a
// Kubernetes Secret.
type SecretRef struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// String is NAME/KEY.
func (r SecretRef) String() string { return r.Name + "/" + r.Key }

// OutgoingSecret returns the one secret that the credential of an outgoing s is made with, and
// the field that refers to it; nil for none.
func (s *Spec) OutgoingSecret() (ref *SecretRef, field string) {
	switch {
	case s.HeaderInjection != nil:
		return s.HeaderInjection.ValueSecretRef, "spec.headerInjection.valueSecretRef"
	case s.BearerToken != nil:
		return s.BearerToken.TokenSecretRef, "spec.bearerToken.tokenSecretRef"
	case s.TokenExchange != nil:
		return s.TokenExchange.ClientSecretRef, "spec.tokenExchange.clientSecretRef"
	}
	return nil, ""
}

// TokenExchange exchanges the caller's token for one of the server (RFC 8693).
type TokenExchange struct {
	TokenURL        string     `json:"tokenUrl"`
	Audience        string     `json:"audience"`
	ClientID        string     `json:"clientId,omitempty"`
	ClientSecretRef *SecretRef `json:"clientSecretRef,omitempty"`
	// ExternalTokenHeaderName carries the new token; "" is Authorization.
	ExternalTokenHeaderName string   `json:"externalTokenHeaderName,omitempty"`
	Scopes                  []string `json:"scopes,omitempty"`
	// SubjectProviderName selects the upstream provider whose token is exchanged in place
	// of the caller's.
	SubjectProviderName string `json:"subjectProviderName,omitempty"`
	// SubjectTokenType is access_token (default), id_token, jwt, or its URN.
	SubjectTokenType string `json:"subjectTokenType,omitempty"`
}

// HeaderInjection sets a header.
type HeaderInjection struct {
	HeaderName     string     `json:"headerName"`
	ValueSecretRef *SecretRef `json:"valueSecretRef"`
}

// BearerToken sends a fixed token.
type BearerToken struct {
	TokenSecretRef *SecretRef `json:"tokenSecretRef"`
}

// UpstreamInject sends the access token that an upstream provider issued for the caller.
type UpstreamInject struct {
	ProviderName string `json:"providerName"`
}

// AWSSTS signs requests by AWS Signature Version 4 with credentials of a role that is
// assumed with a web identity.
type AWSSTS struct {
	Region          string        `json:"region"`
	Service         string        `json:"service,omitempty"` // default aws-mcp
	FallbackRoleARN string        `json:"fallbackRoleArn,omitempty"`
	RoleClaim       string        `json:"roleClaim,omitempty"` // default groups
	RoleMappings    []RoleMapping `json:"roleMappings,omitempty"`
	// SessionDuration is in seconds; default 3600.
	SessionDuration     *int32 `json:"sessionDuration,omitempty"`
	SessionNameClaim    string `json:"sessionNameClaim,omitempty"` // default sub
	SubjectProviderName string `json:"subjectProviderName,omitempty"`
}

// RoleMapping selects a role by the caller's claims. Exactly one of Claim and Matcher is set.
type RoleMapping struct {
	RoleARN string `json:"roleArn"`
	// Claim is a value that the claim RoleClaim has.
	Claim string `json:"claim,omitempty"`
	// Matcher is a CEL expression over claims.
	Matcher string `json:"matcher,omitempty"`
	// Priority orders mappings, the lowest first; nil is the last.
	Priority *int32 `json:"priority,omitempty"`
}

// EmbeddedAuthServer is an authorization server of the gateway's own. Persons sign in at its
// upstream providers.
type EmbeddedAuthServer struct {
	Issuer                       string             `json:"issuer"`
	AuthorizationEndpointBaseURL string             `json:"authorizationEndpointBaseUrl,omitempty"`
	UpstreamProviders            []UpstreamProvider `json:"upstreamProviders"`
	// PrimaryUpstreamProvider identifies persons when there are several; "" is the first.
	PrimaryUpstreamProvider string   `json:"primaryUpstreamProvider,omitempty"`
	BaselineClientScopes    []string `json:"baselineClientScopes,omitempty"`
	// SigningKeySecretRefs are keys of tokens: the first signs, all verify.
	SigningKeySecretRefs []SecretRef `json:"signingKeySecretRefs,omitempty"`
	// HMACSecretRefs are secrets of codes and refresh tokens: the first is current.
	HMACSecretRefs []SecretRef     `json:"hmacSecretRefs,omitempty"`
	Storage        *Storage        `json:"storage,omitempty"`
	TokenLifespans *TokenLifespans `json:"tokenLifespans,omitempty"`
	// DisableUpstreamTokenInjection keeps upstream tokens from being sent to the server.
	DisableUpstreamTokenInjection bool `json:"disableUpstreamTokenInjection,omitempty"`
}

// TokenLifespans are durations such as 30m; "" is the default of each.
type TokenLifespans struct {
	AccessToken  string `json:"accessTokenLifespan,omitempty"`
	RefreshToken string `json:"refreshTokenLifespan,omitempty"`
	AuthCode     string `json:"authCodeLifespan,omitempty"`
}

// Storage is where sign-ins and tokens are kept.
type Storage struct {
	Type  string `json:"type,omitempty"` // memory (default) or redis
	Redis *Redis `json:"redis,omitempty"`
}

// Redis is a Redis server, cluster, or group with sentinels. Exactly one of Addr and
// SentinelConfig is set.
type Redis struct {
	Addr           string    `json:"addr,omitempty"` // host:port
	ClusterMode    bool      `json:"clusterMode,omitempty"`
	SentinelConfig *Sentinel `json:"sentinelConfig,omitempty"`
	ACLUserConfig  *ACLUser  `json:"aclUserConfig"`
	// TLS and SentinelTLS: their presence enables TLS.
	TLS          *RedisTLS `json:"tls,omitempty"`
	SentinelTLS  *RedisTLS `json:"sentinelTls,omitempty"`
	DialTimeout  string    `json:"dialTimeout,omitempty"`  // default 5s
	ReadTimeout  string    `json:"readTimeout,omitempty"`  // default 3s
	WriteTimeout string    `json:"writeTimeout,omitempty"` // default 3s
}

// Sentinel finds the master of a group. Exactly one of Addrs and Service is set.
type Sentinel struct {
	MasterName string           `json:"masterName"`
	DB         int32            `json:"db,omitempty"`
	Addrs      []string         `json:"sentinelAddrs,omitempty"` // host:port
	Service    *SentinelService `json:"sentinelService,omitempty"`
}

// SentinelService is the Kubernetes Service of the sentinels.
type SentinelService struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"` // "" is that of the resource
	Port      *int32 `json:"port,omitempty"`      // default 26379
}

// ACLUser authenticates at Redis. Without a user name only the password is sent.
type ACLUser struct {
	UsernameSecretRef *SecretRef `json:"usernameSecretRef,omitempty"`
	PasswordSecretRef *SecretRef `json:"passwordSecretRef"`
}

// RedisTLS is how a connection is verified.
type RedisTLS struct {
	CACertSecretRef    *SecretRef `json:"caCertSecretRef,omitempty"` // nil: the system's authorities
	InsecureSkipVerify bool       `json:"insecureSkipVerify,omitempty"`
}

// UpstreamProvider is an identity provider. Exactly the member that Type names is set.
type UpstreamProvider struct {
	Name   string  `json:"name"`
	Type   string  `json:"type"` // oidc or oauth2
	OIDC   *OIDC   `json:"oidcConfig,omitempty"`
	OAuth2 *OAuth2 `json:"oauth2Config,omitempty"`
}

// The types of an UpstreamProvider.
const (
	UpstreamOIDC   = "oidc"
	UpstreamOAuth2 = "oauth2"
)

// OIDC is a provider of OpenID Connect.
type OIDC struct {
	IssuerURL       string     `json:"issuerUrl"`
	ClientID        string     `json:"clientId"`
	ClientSecretRef *SecretRef `json:"clientSecretRef,omitempty"`
	// RedirectURI is by default {resourceUrl}/oauth/callback.
	RedirectURI string `json:"redirectUri,omitempty"`
	// Scopes are by default openid and offline_access.
	Scopes                        []string          `json:"scopes,omitempty"`
	AdditionalAuthorizationParams map[string]string `json:"additionalAuthorizationParams,omitempty"`
	UserInfoOverride              *UserInfo         `json:"userInfoOverride,omitempty"`
	// SubjectClaim identifies the person; "" is sub.
	SubjectClaim string `json:"subjectClaim,omitempty"`
}

// OAuth2 is a provider of OAuth 2.0 without OpenID Connect. Exactly one of ClientID and DCR
// is set.
type OAuth2 struct {
	AuthorizationEndpoint         string                `json:"authorizationEndpoint"`
	TokenEndpoint                 string                `json:"tokenEndpoint"`
	ClientID                      string                `json:"clientId,omitempty"`
	ClientSecretRef               *SecretRef            `json:"clientSecretRef,omitempty"`
	DCR                           *DCR                  `json:"dcrConfig,omitempty"`
	RedirectURI                   string                `json:"redirectUri,omitempty"`
	Scopes                        []string              `json:"scopes,omitempty"`
	AdditionalAuthorizationParams map[string]string     `json:"additionalAuthorizationParams,omitempty"`
	UserInfo                      *UserInfo             `json:"userInfo,omitempty"`
	IdentityFromToken             *IdentityFromToken    `json:"identityFromToken,omitempty"`
	TokenResponseMapping          *TokenResponseMapping `json:"tokenResponseMapping,omitempty"`
}

// UserInfo is an endpoint that describes the person whom a token represents.
type UserInfo struct {
	EndpointURL       string            `json:"endpointUrl"`
	HTTPMethod        string            `json:"httpMethod,omitempty"` // GET (default) or POST
	AdditionalHeaders map[string]string `json:"additionalHeaders,omitempty"`
	FieldMapping      *FieldMapping     `json:"fieldMapping,omitempty"`
}

// FieldMapping are names of members of the response, or dot paths; the first that is not
// empty counts.
type FieldMapping struct {
	SubjectFields []string `json:"subjectFields,omitempty"` // default sub
	NameFields    []string `json:"nameFields,omitempty"`    // default name
	EmailFields   []string `json:"emailFields,omitempty"`   // default email
}

// IdentityFromToken are dot paths into the token response.
type IdentityFromToken struct {
	SubjectPath string `json:"subjectPath"`
	NamePath    string `json:"namePath,omitempty"`
	EmailPath   string `json:"emailPath,omitempty"`
}

// TokenResponseMapping are dot paths into a token response that does not follow RFC 6749.
type TokenResponseMapping struct {
	AccessTokenPath  string `json:"accessTokenPath"`
	RefreshTokenPath string `json:"refreshTokenPath,omitempty"` // default refresh_token
	ExpiresInPath    string `json:"expiresInPath,omitempty"`    // default expires_in, in seconds
	ScopePath        string `json:"scopePath,omitempty"`        // default scope
}

// DCR registers the gateway as a client (RFC 7591). Exactly one of DiscoveryURL and
// RegistrationEndpoint is set.
type DCR struct {
	DiscoveryURL          string     `json:"discoveryUrl,omitempty"`
	RegistrationEndpoint  string     `json:"registrationEndpoint,omitempty"`
	InitialAccessTokenRef *SecretRef `json:"initialAccessTokenRef,omitempty"`
	SoftwareID            string     `json:"softwareId,omitempty"`
	SoftwareStatement     string     `json:"softwareStatement,omitempty"`
}

// Defaults and bounds of lifespans.
const (
	DefaultAccessToken  = time.Hour
	DefaultRefreshToken = 7 * 24 * time.Hour
	DefaultAuthCode     = 10 * time.Minute
)

// Lifespans returns the lifespans of a valid x.
func (x *EmbeddedAuthServer) Lifespans() (access, refresh, code time.Duration) {
	t := x.TokenLifespans
	if t == nil {
		t = &TokenLifespans{}
	}
	or := func(text string, byDefault time.Duration) time.Duration {
		if d, err := time.ParseDuration(text); err == nil {
			return d
		}
		return byDefault
	}
	return or(t.AccessToken, DefaultAccessToken), or(t.RefreshToken, DefaultRefreshToken), or(t.AuthCode, DefaultAuthCode)
}

// RedirectURI is that of the provider's configuration, "" without one.
func (x *UpstreamProvider) RedirectURI() string {
	switch {
	case x.OIDC != nil:
		return x.OIDC.RedirectURI
	case x.OAuth2 != nil:
		return x.OAuth2.RedirectURI
	}
	return ""
}

// SupportedScopes are the scopes that clients can request: those of OpenID Connect that have
// an effect, the protected resource's, and those that an upstream provider is asked for.
func (x *EmbeddedAuthServer) SupportedScopes(resource []string) []string {
	scopes := []string{"openid", "profile", "email", "offline_access"}
	add := func(more []string) {
		for _, scope := range more {
			if !slices.Contains(scopes, scope) {
				scopes = append(scopes, scope)
			}
		}
	}
	add(resource)
	for _, u := range x.UpstreamProviders {
		switch {
		case u.OIDC != nil:
			add(u.OIDC.Scopes)
		case u.OAuth2 != nil:
			add(u.OAuth2.Scopes)
		}
	}
	return scopes
}

// CheckScopes is an error when a baseline scope is not supported.
func (x *EmbeddedAuthServer) CheckScopes(resource []string) error {
	supported := x.SupportedScopes(resource)
	missing := slices.DeleteFunc(slices.Clone(x.BaselineClientScopes), func(scope string) bool { return slices.Contains(supported, scope) })
	if len(missing) > 0 {
		return fmt.Errorf("spec.embeddedAuthServer.baselineClientScopes: no upstream provider has %s in its scopes", strings.Join(missing, ", "))
	}
	return nil
}
