// Package externalauth has the spec of the resource MCPExternalAuthConfig and its one
// validation: how clients of a tool server are authenticated by an authorization server of
// the gateway's own, or how the gateway authenticates at the tool server. It imports nothing
// of Kubernetes. The command line, the gateway at its start and the operator use the same
// types and the same rules.
//
// +kubebuilder:object:generate=true
package externalauth

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Spec is the spec of an MCPExternalAuthConfig. Exactly the member that Type names is set;
// [Unauthenticated] has none.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'tokenExchange') == has(self.tokenExchange)",message="tokenExchange is required when type is tokenExchange, and must be absent otherwise"
// +kubebuilder:validation:XValidation:rule="(self.type == 'headerInjection') == has(self.headerInjection)",message="headerInjection is required when type is headerInjection, and must be absent otherwise"
// +kubebuilder:validation:XValidation:rule="(self.type == 'bearerToken') == has(self.bearerToken)",message="bearerToken is required when type is bearerToken, and must be absent otherwise"
// +kubebuilder:validation:XValidation:rule="(self.type == 'embeddedAuthServer') == has(self.embeddedAuthServer)",message="embeddedAuthServer is required when type is embeddedAuthServer, and must be absent otherwise"
// +kubebuilder:validation:XValidation:rule="(self.type == 'awsSts') == has(self.awsSts)",message="awsSts is required when type is awsSts, and must be absent otherwise"
// +kubebuilder:validation:XValidation:rule="(self.type == 'upstreamInject') == has(self.upstreamInject)",message="upstreamInject is required when type is upstreamInject, and must be absent otherwise"
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
//
// +kubebuilder:validation:Enum=tokenExchange;headerInjection;bearerToken;unauthenticated;embeddedAuthServer;awsSts;upstreamInject
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
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// +kubebuilder:validation:MinLength=1
	Key string `json:"key"`
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
//
// +kubebuilder:validation:XValidation:rule="!has(self.clientSecretRef) || (has(self.clientId) && size(self.clientId) > 0)",message="clientId is required with clientSecretRef"
type TokenExchange struct {
	// +kubebuilder:validation:Pattern=`^https?://.*$`
	TokenURL string `json:"tokenUrl"`
	// +kubebuilder:validation:MinLength=1
	Audience        string     `json:"audience"`
	ClientID        string     `json:"clientId,omitempty"`
	ClientSecretRef *SecretRef `json:"clientSecretRef,omitempty"`
	// ExternalTokenHeaderName carries the new token; "" is Authorization.
	ExternalTokenHeaderName string `json:"externalTokenHeaderName,omitempty"`
	// +kubebuilder:validation:items:Pattern=`^[\x21\x23-\x5B\x5D-\x7E]+$`
	Scopes []string `json:"scopes,omitempty"`
	// SubjectProviderName selects the upstream provider whose token is exchanged in place
	// of the caller's.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	SubjectProviderName string `json:"subjectProviderName,omitempty"`
	// SubjectTokenType is access_token (default), id_token, jwt, or its URN.
	// +kubebuilder:validation:Pattern=`^(access_token|id_token|jwt|urn:ietf:params:oauth:token-type:(access_token|id_token|jwt))?$`
	SubjectTokenType string `json:"subjectTokenType,omitempty"`
}

// HeaderInjection sets a header.
type HeaderInjection struct {
	// +kubebuilder:validation:MinLength=1
	HeaderName     string     `json:"headerName"`
	ValueSecretRef *SecretRef `json:"valueSecretRef"`
}

// BearerToken sends a fixed token.
type BearerToken struct {
	TokenSecretRef *SecretRef `json:"tokenSecretRef"`
}

// UpstreamInject sends the access token that an upstream provider issued for the caller.
type UpstreamInject struct {
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ProviderName string `json:"providerName"`
}

// AWSSTS signs requests by AWS Signature Version 4 with credentials of a role that is
// assumed with a web identity.
//
// +kubebuilder:validation:XValidation:rule="has(self.fallbackRoleArn) || (has(self.roleMappings) && size(self.roleMappings) > 0)",message="at least one of fallbackRoleArn and roleMappings is required"
type AWSSTS struct {
	// +kubebuilder:validation:Pattern=`^[a-z]{2}(-[a-z]+)+-\d+$`
	// +kubebuilder:validation:MinLength=1
	Region string `json:"region"`
	// +kubebuilder:default=aws-mcp
	Service string `json:"service,omitempty"` // default aws-mcp
	// +kubebuilder:validation:Pattern=`^arn:(aws|aws-cn|aws-us-gov):iam::\d{12}:role/[\w+=,.@\-_/]+$`
	FallbackRoleARN string `json:"fallbackRoleArn,omitempty"`
	// +kubebuilder:default=groups
	RoleClaim string `json:"roleClaim,omitempty"` // default groups
	// +kubebuilder:validation:MaxItems=500
	RoleMappings []RoleMapping `json:"roleMappings,omitempty"`
	// SessionDuration is in seconds; default 3600.
	// +kubebuilder:validation:Minimum=900
	// +kubebuilder:validation:Maximum=43200
	// +kubebuilder:default=3600
	SessionDuration *int32 `json:"sessionDuration,omitempty"`
	// +kubebuilder:default=sub
	SessionNameClaim string `json:"sessionNameClaim,omitempty"` // default sub
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	SubjectProviderName string `json:"subjectProviderName,omitempty"`
}

// RoleMapping selects a role by the caller's claims. Exactly one of Claim and Matcher is set.
//
// +kubebuilder:validation:XValidation:rule="has(self.claim) != has(self.matcher)",message="exactly one of claim and matcher is required"
type RoleMapping struct {
	// +kubebuilder:validation:Pattern=`^arn:(aws|aws-cn|aws-us-gov):iam::\d{12}:role/[\w+=,.@\-_/]+$`
	RoleARN string `json:"roleArn"`
	// Claim is a value that the claim RoleClaim has.
	// +kubebuilder:validation:MinLength=1
	Claim string `json:"claim,omitempty"`
	// Matcher is a CEL expression over claims.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Matcher string `json:"matcher,omitempty"`
	// Priority orders mappings, the lowest first; nil is the last.
	// +kubebuilder:validation:Minimum=0
	Priority *int32 `json:"priority,omitempty"`
}

// EmbeddedAuthServer is an authorization server of the gateway's own. Persons sign in at its
// upstream providers.
//
// +kubebuilder:validation:XValidation:rule="!has(self.primaryUpstreamProvider) || self.upstreamProviders.exists(p, p.name == self.primaryUpstreamProvider)",message="primaryUpstreamProvider must be the name of an upstream provider"
type EmbeddedAuthServer struct {
	// +kubebuilder:validation:Pattern=`^https?://[^\s?#]+[^/\s?#]$`
	Issuer string `json:"issuer"`
	// +kubebuilder:validation:Pattern=`^https?://[^\s?#]+[^/\s?#]$`
	AuthorizationEndpointBaseURL string `json:"authorizationEndpointBaseUrl,omitempty"`
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	UpstreamProviders []UpstreamProvider `json:"upstreamProviders"`
	// PrimaryUpstreamProvider identifies persons when there are several; "" is the first.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	PrimaryUpstreamProvider string `json:"primaryUpstreamProvider,omitempty"`
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:Pattern=`^[\x21\x23-\x5B\x5D-\x7E]+$`
	BaselineClientScopes []string `json:"baselineClientScopes,omitempty"`
	// SigningKeySecretRefs are keys of tokens: the first signs, all verify.
	// +kubebuilder:validation:MaxItems=5
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
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="must be 1m to 24h"
	AccessToken string `json:"accessTokenLifespan,omitempty"`
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h') && duration(self) <= duration('720h')",message="must be 1h to 720h"
	RefreshToken string `json:"refreshTokenLifespan,omitempty"`
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('30s') && duration(self) <= duration('10m')",message="must be 30s to 10m"
	AuthCode string `json:"authCodeLifespan,omitempty"`
}

// Storage is where sign-ins and tokens are kept.
//
// +kubebuilder:validation:XValidation:rule="(has(self.type) && self.type == 'redis') == has(self.redis)",message="redis is required when type is redis, and must be absent otherwise"
type Storage struct {
	// +kubebuilder:validation:Enum=memory;redis
	// +kubebuilder:default=memory
	Type  string `json:"type,omitempty"` // memory (default) or redis
	Redis *Redis `json:"redis,omitempty"`
}

// Redis is a Redis server, cluster, or group with sentinels. Exactly one of Addr and
// SentinelConfig is set.
//
// +kubebuilder:validation:XValidation:rule="(has(self.addr) && size(self.addr) > 0) != has(self.sentinelConfig)",message="exactly one of addr and sentinelConfig is required"
// +kubebuilder:validation:XValidation:rule="!has(self.clusterMode) || !self.clusterMode || (has(self.addr) && size(self.addr) > 0)",message="clusterMode needs addr"
// +kubebuilder:validation:XValidation:rule="!has(self.sentinelTls) || has(self.sentinelConfig)",message="sentinelTls needs sentinelConfig"
type Redis struct {
	Addr           string    `json:"addr,omitempty"` // host:port
	ClusterMode    bool      `json:"clusterMode,omitempty"`
	SentinelConfig *Sentinel `json:"sentinelConfig,omitempty"`
	ACLUserConfig  *ACLUser  `json:"aclUserConfig"`
	// TLS and SentinelTLS: their presence enables TLS.
	TLS         *RedisTLS `json:"tls,omitempty"`
	SentinelTLS *RedisTLS `json:"sentinelTls,omitempty"`
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('10m')",message="must be 1ms to 10m"
	// +kubebuilder:default="5s"
	DialTimeout string `json:"dialTimeout,omitempty"` // default 5s
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('10m')",message="must be 1ms to 10m"
	// +kubebuilder:default="3s"
	ReadTimeout string `json:"readTimeout,omitempty"` // default 3s
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('10m')",message="must be 1ms to 10m"
	// +kubebuilder:default="3s"
	WriteTimeout string `json:"writeTimeout,omitempty"` // default 3s
}

// Sentinel finds the master of a group. Exactly one of Addrs and Service is set.
//
// +kubebuilder:validation:XValidation:rule="(has(self.sentinelAddrs) && size(self.sentinelAddrs) > 0) != has(self.sentinelService)",message="exactly one of sentinelAddrs and sentinelService is required"
type Sentinel struct {
	// +kubebuilder:validation:MinLength=1
	MasterName string `json:"masterName"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=0
	DB      int32            `json:"db,omitempty"`
	Addrs   []string         `json:"sentinelAddrs,omitempty"` // host:port
	Service *SentinelService `json:"sentinelService,omitempty"`
}

// SentinelService is the Kubernetes Service of the sentinels.
type SentinelService struct {
	// +kubebuilder:validation:MinLength=1
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"` // "" is that of the resource
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=26379
	Port *int32 `json:"port,omitempty"` // default 26379
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
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'oidc') == has(self.oidcConfig)",message="oidcConfig is required when type is oidc, and must be absent otherwise"
// +kubebuilder:validation:XValidation:rule="(self.type == 'oauth2') == has(self.oauth2Config)",message="oauth2Config is required when type is oauth2, and must be absent otherwise"
type UpstreamProvider struct {
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// +kubebuilder:validation:Enum=oidc;oauth2
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
	// +kubebuilder:validation:Pattern=`^https://.*$`
	IssuerURL string `json:"issuerUrl"`
	// +kubebuilder:validation:MinLength=1
	ClientID        string     `json:"clientId"`
	ClientSecretRef *SecretRef `json:"clientSecretRef,omitempty"`
	// RedirectURI is by default {resourceUrl}/oauth/callback.
	RedirectURI string `json:"redirectUri,omitempty"`
	// Scopes are by default openid and offline_access.
	// +kubebuilder:validation:items:Pattern=`^[\x21\x23-\x5B\x5D-\x7E]+$`
	Scopes []string `json:"scopes,omitempty"`
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="['response_type', 'client_id', 'redirect_uri', 'scope', 'state', 'code_challenge', 'code_challenge_method', 'nonce', 'request', 'request_uri'].all(n, !(n in self))",message="a parameter that the gateway sets cannot be given"
	AdditionalAuthorizationParams map[string]string `json:"additionalAuthorizationParams,omitempty"`
	UserInfoOverride              *UserInfo         `json:"userInfoOverride,omitempty"`
	// SubjectClaim identifies the person; "" is sub.
	// +kubebuilder:validation:Pattern=`^([a-zA-Z_][a-zA-Z0-9_]*)?$`
	// +kubebuilder:validation:MaxLength=128
	SubjectClaim string `json:"subjectClaim,omitempty"`
}

// OAuth2 is a provider of OAuth 2.0 without OpenID Connect. Exactly one of ClientID and DCR
// is set.
//
// +kubebuilder:validation:XValidation:rule="(has(self.clientId) && size(self.clientId) > 0) != has(self.dcrConfig)",message="exactly one of clientId and dcrConfig is required"
// +kubebuilder:validation:XValidation:rule="!has(self.dcrConfig) || !has(self.clientSecretRef)",message="clientSecretRef must be absent with dcrConfig: registration results in a secret"
// +kubebuilder:validation:XValidation:rule="!has(self.dcrConfig) || !has(self.dcrConfig.registrationEndpoint) || size(self.dcrConfig.registrationEndpoint) == 0 || (has(self.scopes) && size(self.scopes) > 0)",message="scopes is required with dcrConfig.registrationEndpoint: nothing else names the scopes"
type OAuth2 struct {
	// +kubebuilder:validation:Pattern=`^https?://.*$`
	AuthorizationEndpoint string `json:"authorizationEndpoint"`
	// +kubebuilder:validation:Pattern=`^https?://.*$`
	TokenEndpoint   string     `json:"tokenEndpoint"`
	ClientID        string     `json:"clientId,omitempty"`
	ClientSecretRef *SecretRef `json:"clientSecretRef,omitempty"`
	DCR             *DCR       `json:"dcrConfig,omitempty"`
	RedirectURI     string     `json:"redirectUri,omitempty"`
	// +kubebuilder:validation:items:Pattern=`^[\x21\x23-\x5B\x5D-\x7E]+$`
	Scopes []string `json:"scopes,omitempty"`
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="['response_type', 'client_id', 'redirect_uri', 'scope', 'state', 'code_challenge', 'code_challenge_method', 'nonce', 'request', 'request_uri'].all(n, !(n in self))",message="a parameter that the gateway sets cannot be given"
	AdditionalAuthorizationParams map[string]string     `json:"additionalAuthorizationParams,omitempty"`
	UserInfo                      *UserInfo             `json:"userInfo,omitempty"`
	IdentityFromToken             *IdentityFromToken    `json:"identityFromToken,omitempty"`
	TokenResponseMapping          *TokenResponseMapping `json:"tokenResponseMapping,omitempty"`
}

// UserInfo is an endpoint that describes the person whom a token represents.
type UserInfo struct {
	// +kubebuilder:validation:Pattern=`^https?://.*$`
	EndpointURL string `json:"endpointUrl"`
	// +kubebuilder:validation:Enum=GET;POST
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
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SubjectPath string `json:"subjectPath"`
	// +kubebuilder:validation:MaxLength=256
	NamePath string `json:"namePath,omitempty"`
	// +kubebuilder:validation:MaxLength=256
	EmailPath string `json:"emailPath,omitempty"`
}

// TokenResponseMapping are dot paths into a token response that does not follow RFC 6749.
type TokenResponseMapping struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	AccessTokenPath string `json:"accessTokenPath"`
	// +kubebuilder:validation:MaxLength=256
	RefreshTokenPath string `json:"refreshTokenPath,omitempty"` // default refresh_token
	// +kubebuilder:validation:MaxLength=256
	ExpiresInPath string `json:"expiresInPath,omitempty"` // default expires_in, in seconds
	// +kubebuilder:validation:MaxLength=256
	ScopePath string `json:"scopePath,omitempty"` // default scope
}

// DCR registers the gateway as a client (RFC 7591). Exactly one of DiscoveryURL and
// RegistrationEndpoint is set.
//
// +kubebuilder:validation:XValidation:rule="has(self.discoveryUrl) != has(self.registrationEndpoint)",message="exactly one of discoveryUrl and registrationEndpoint is required"
type DCR struct {
	// +kubebuilder:validation:Pattern=`^https://[^\s?#]+[^/\s?#]$`
	// +kubebuilder:validation:MaxLength=2048
	DiscoveryURL string `json:"discoveryUrl,omitempty"`
	// +kubebuilder:validation:Pattern=`^https://[^\s?#]+[^/\s?#]$`
	// +kubebuilder:validation:MaxLength=2048
	RegistrationEndpoint  string     `json:"registrationEndpoint,omitempty"`
	InitialAccessTokenRef *SecretRef `json:"initialAccessTokenRef,omitempty"`
	// +kubebuilder:validation:MaxLength=255
	SoftwareID string `json:"softwareId,omitempty"`
	// +kubebuilder:validation:MaxLength=16384
	SoftwareStatement string `json:"softwareStatement,omitempty"`
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
