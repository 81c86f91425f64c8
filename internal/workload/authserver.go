package workload

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/secret"
)

// SetAuthServer makes an embedded authorization server the issuer of the clients' tokens.
// resource is the URL at which clients reach the gateway, "" for that below the issuer.
func (s *Spec) SetAuthServer(x *externalauth.EmbeddedAuthServer, resource string, scopes []string) {
	s.AuthServer = x
	resource = cmp.Or(resource, x.Issuer+s.Endpoint().Path())
	s.Auth = &Auth{IssuerURL: x.Issuer, Audience: resource, ResourceURL: resource, Scopes: scopes}
	// The clients' tokens are accepted here only: what represents a person elsewhere is a
	// token of an upstream provider.
	if out := s.ExternalAuth; out != nil && len(x.UpstreamProviders) > 0 {
		first := x.UpstreamProviders[0].Name
		if t := out.TokenExchange; t != nil {
			t.SubjectProviderName = cmp.Or(t.SubjectProviderName, first)
		}
		if t := out.AWSSTS; t != nil {
			t.SubjectProviderName = cmp.Or(t.SubjectProviderName, first)
		}
	}
}

// RedirectBase is the URL below which the callback of upstream providers is: the resource URL
// if the user gave one, else the issuer.
func (s *Spec) RedirectBase() string {
	if s.Auth.ResourceURL == s.AuthServer.Issuer+s.Endpoint().Path() {
		return s.AuthServer.Issuer
	}
	return s.Auth.ResourceURL
}

// AuthServerPort is the port of an issuer on this machine: the gateway must listen there. It
// is 0 for an issuer elsewhere, or without a port.
func AuthServerPort(x *externalauth.EmbeddedAuthServer) int {
	u, err := url.Parse(x.Issuer)
	if err != nil || u.Scheme != "http" {
		return 0
	}
	var port int
	_, _ = fmt.Sscan(u.Port(), &port)
	return port
}

// validateAuthServer reports what is wrong with the embedded authorization server.
func validateAuthServer(s *Spec) error {
	x := s.AuthServer
	if x == nil {
		return nil
	}
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf("--auth: "+format, args...)) }
	whole := externalauth.Spec{Type: externalauth.TypeEmbeddedAuthServer, EmbeddedAuthServer: x}
	var faults externalauth.Faults
	if errors.As(whole.Validate(), &faults) {
		for _, fault := range faults {
			add("%w", fault)
		}
		return errors.Join(errs...)
	}
	a := s.Auth
	if a == nil || a.IssuerURL != x.Issuer || a.ResourceURL == "" || a.Audience != a.ResourceURL {
		add("the clients' tokens must be those of the embedded authorization server")
	} else if a.JWKSURL+a.IntrospectionURL+a.ClientID+a.ClientSecret+a.AuthTokenFile != "" || a.AllowHTTP || a.AllowPrivateIP {
		add("with an embedded authorization server the clients' tokens are its own; of the flags of authentication, only --resource-url and --oidc-scopes have an effect")
	}
	if a != nil {
		if err := x.CheckScopes(a.Scopes); err != nil {
			add("%w", err)
		}
	}
	if st := x.Storage; st != nil && st.Redis != nil && st.Redis.SentinelConfig != nil && st.Redis.SentinelConfig.Service != nil {
		add("spec.embeddedAuthServer.storage.redis.sentinelConfig.sentinelService is a service of a Kubernetes cluster; give sentinelAddrs")
	}
	return errors.Join(errs...)
}

// authServerHosts are the hosts at which browsers reach the authorization server.
func authServerHosts(s *Spec) []string {
	if s.AuthServer == nil {
		return nil
	}
	urls := []string{s.AuthServer.Issuer, s.AuthServer.AuthorizationEndpointBaseURL}
	for i := range s.AuthServer.UpstreamProviders {
		urls = append(urls, s.AuthServer.UpstreamProviders[i].RedirectURI())
	}
	var hosts []string
	for _, raw := range urls {
		if u, err := url.Parse(raw); err == nil && u.Host != "" {
			hosts = append(hosts, u.Host)
		}
	}
	return hosts
}

// InjectedProvider is the upstream provider whose tokens the server receives when no resource
// determines what it receives; "" for none.
func (s *Spec) InjectedProvider() string {
	x := s.AuthServer
	if x == nil || len(x.UpstreamProviders) == 0 || s.ExternalAuth != nil || s.TokenExchange != nil || x.DisableUpstreamTokenInjection || s.Transport == Stdio {
		return ""
	}
	return cmp.Or(x.PrimaryUpstreamProvider, x.UpstreamProviders[0].Name)
}

// AuthSecrets are the references of the resources of --auth.
func (s *Spec) AuthSecrets() []externalauth.SecretRef {
	var refs []externalauth.SecretRef
	if s.AuthServer != nil {
		refs = s.AuthServer.Secrets()
	}
	if s.ExternalAuth != nil {
		if ref, _ := s.ExternalAuth.OutgoingSecret(); ref != nil {
			refs = append(refs, *ref)
		}
	}
	return refs
}

// authSecretRef is the reference of the secrets store.
func authSecretRef(r externalauth.SecretRef) string { return secret.SharedRef(r.String()) }

// AuthSecret returns a function that resolves references of the resources of --auth. A value
// that ends in a line end is taken without it.
func AuthSecret(secrets func(ref string) (string, error)) func(externalauth.SecretRef) (string, error) {
	return func(r externalauth.SecretRef) (string, error) {
		value, err := secrets(authSecretRef(r))
		return strings.TrimRight(value, "\r\n"), err
	}
}
