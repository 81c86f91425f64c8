package workload

import (
	"errors"
	"fmt"
	"time"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// RemoteAuth is how the user logs in to a remote server that OAuth protects (MCP,
// basic/authorization). Every field may be empty: what is missing is discovered.
type RemoteAuth struct {
	// Required: the user logs in also where the server answers without a login.
	Required bool `json:"required,omitempty"`
	// Issuer selects one of the server's authorization servers. AuthorizeURL and TokenURL
	// are the endpoints of one without metadata.
	Issuer       string `json:"issuer,omitempty"`
	AuthorizeURL string `json:"authorizeUrl,omitempty"`
	TokenURL     string `json:"tokenUrl,omitempty"`
	// ClientID is a registered client, or the URL of a client id metadata document; "" is
	// found or registered. ClientSecret is the reference of a secret; ClientSecretFile is
	// an absolute path.
	ClientID         string   `json:"clientId,omitempty"`
	ClientSecret     string   `json:"clientSecret,omitempty"`
	ClientSecretFile string   `json:"clientSecretFile,omitempty"`
	Scopes           []string `json:"scopes,omitempty"`
	// ScopeParam is the name of the parameter with the scopes in the authorization
	// request; "" is scope.
	ScopeParam string `json:"scopeParam,omitempty"`
	// Resource is the resource indicator (RFC 8707); nil is the server's own identifier,
	// and "" sends none.
	Resource *string `json:"resource,omitempty"`
	// CallbackPort is the port of the redirect URI; 0 is 8666, or any free one.
	CallbackPort int  `json:"callbackPort,omitempty"`
	SkipBrowser  bool `json:"skipBrowser,omitempty"`
	// Timeout bounds a login; 0 is 30s.
	Timeout Duration `json:"timeout,omitempty"`
	// Login identifies the sign-in on this machine; "" while none was needed.
	Login string `json:"login,omitempty"`
}

// DefaultCallbackPort and DefaultLoginTimeout are those of the flags.
const (
	DefaultCallbackPort = 8666
	DefaultLoginTimeout = 30 * time.Second
)

func (a *RemoteAuth) validate() error {
	var errs []error
	add := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("login at the remote server: "+format, args...))
	}
	if (a.AuthorizeURL == "") != (a.TokenURL == "") {
		add("the authorization endpoint and the token endpoint are needed together (--remote-auth-authorize-url, --remote-auth-token-url)")
	}
	if a.AuthorizeURL != "" && a.Issuer != "" {
		add("an issuer and endpoints are given; give one of them")
	}
	if a.AuthorizeURL != "" && a.ClientID == "" {
		add("with endpoints instead of an issuer, a client cannot be registered; give --remote-auth-client-id")
	}
	if a.Issuer != "" {
		if err := netguard.CheckEndpoint(a.Issuer); err != nil {
			add("%w", err)
		}
	}
	if a.TokenURL != "" {
		if err := netguard.CheckOAuthEndpoint(a.TokenURL); err != nil {
			add("%w", err)
		}
	}
	if a.ClientSecret != "" && a.ClientSecretFile != "" {
		add("the client secret is given as a value and as a file")
	}
	if (a.ClientSecret != "" || a.ClientSecretFile != "") && a.ClientID == "" {
		add("a client secret needs --remote-auth-client-id")
	}
	for _, scope := range a.Scopes {
		if !validScope(scope) {
			add("%q is not a scope", scope)
		}
	}
	if a.ScopeParam != "" && !validScope(a.ScopeParam) {
		add("%q is not the name of a parameter", a.ScopeParam)
	}
	if a.CallbackPort < 0 || a.CallbackPort > 65535 {
		add("callback port %d is not a port", a.CallbackPort)
	}
	if a.Timeout < 0 {
		add("timeout %s is not a time to log in", time.Duration(a.Timeout))
	}
	return errors.Join(errs...)
}
