package v1beta1

import "github.com/toolhaven/toolhaven/internal/externalauth"

// Types of the spec of MCPExternalAuthConfig, for modules that cannot import package
// externalauth.

//revive:disable:exported
type (
	MCPExternalAuthConfigSpec = externalauth.Spec
	ExternalAuthType          = externalauth.Type
	SecretRef                 = externalauth.SecretRef
	TokenExchangeConfig       = externalauth.TokenExchange
	HeaderInjectionConfig     = externalauth.HeaderInjection
	BearerTokenConfig         = externalauth.BearerToken
	UpstreamInjectConfig      = externalauth.UpstreamInject
	AWSSTSConfig              = externalauth.AWSSTS
	RoleMapping               = externalauth.RoleMapping
	EmbeddedAuthServerConfig  = externalauth.EmbeddedAuthServer
	TokenLifespans            = externalauth.TokenLifespans
	AuthServerStorage         = externalauth.Storage
	RedisConfig               = externalauth.Redis
	RedisSentinelConfig       = externalauth.Sentinel
	SentinelService           = externalauth.SentinelService
	RedisACLUser              = externalauth.ACLUser
	RedisTLS                  = externalauth.RedisTLS
	UpstreamProvider          = externalauth.UpstreamProvider
	UpstreamOIDCConfig        = externalauth.OIDC
	UpstreamOAuth2Config      = externalauth.OAuth2
	UserInfoConfig            = externalauth.UserInfo
	UserInfoFieldMapping      = externalauth.FieldMapping
	IdentityFromToken         = externalauth.IdentityFromToken
	TokenResponseMapping      = externalauth.TokenResponseMapping
	DCRConfig                 = externalauth.DCR
)

//revive:enable:exported

// The types of an MCPExternalAuthConfig.
const (
	ExternalAuthTokenExchange      = externalauth.TypeTokenExchange
	ExternalAuthHeaderInjection    = externalauth.TypeHeaderInjection
	ExternalAuthBearerToken        = externalauth.TypeBearerToken
	ExternalAuthUnauthenticated    = externalauth.TypeUnauthenticated
	ExternalAuthEmbeddedAuthServer = externalauth.TypeEmbeddedAuthServer
	ExternalAuthAWSSTS             = externalauth.TypeAWSSTS
	ExternalAuthUpstreamInject     = externalauth.TypeUpstreamInject
)
