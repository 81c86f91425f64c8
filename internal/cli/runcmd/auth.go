package runcmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/runflag"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// authOptions are the flags of client authentication.
type authOptions struct {
	workload.Auth

	clientSecret string
}

// authFlags are the flags any of which configures client authentication.
var authFlags = []string{
	"oidc-issuer", "oidc-audience", "oidc-client-id", "oidc-client-secret", "oidc-jwks-url", "oidc-introspection-url",
	"oidc-scopes", "oidc-insecure-allow-http", "jwks-allow-private-ip", "jwks-auth-token-file", "resource-url",
}

func addAuthFlags(f *pflag.FlagSet, o *authOptions) {
	f.StringVar(&o.IssuerURL, "oidc-issuer", "", "Issuer URL; clients need an access token of it")
	f.StringVar(&o.Audience, "oidc-audience", "", "Expected audience (default: that of --resource-url)")
	f.StringVar(&o.ClientID, "oidc-client-id", "", "Client id, for introspection")
	f.StringVar(&o.clientSecret, "oidc-client-secret", "", "Client secret (optional, for introspection); better in THV_OIDC_CLIENT_SECRET")
	f.StringVar(&o.JWKSURL, "oidc-jwks-url", "", "JWKS URL (default: found by OIDC discovery)")
	f.StringVar(&o.IntrospectionURL, "oidc-introspection-url", "", "Introspection endpoint, for opaque tokens")
	f.StringSliceVar(&o.Scopes, "oidc-scopes", []string{"openid"}, "Scopes advertised in the well-known endpoint (RFC 9728)")
	f.BoolVar(&o.AllowHTTP, "oidc-insecure-allow-http", false, "Allow HTTP issuers (insecure, local testing)")
	f.BoolVar(&o.AllowPrivateIP, "jwks-allow-private-ip", false, "Allow JWKS/OIDC endpoints on private IPs")
	f.StringVar(&o.AuthTokenFile, "jwks-auth-token-file", "", "File with bearer token for JWKS/OIDC requests")
	f.StringVar(&o.ResourceURL, "resource-url", "", "Explicit resource URL for the RFC 9728 discovery endpoint (default: the URL that the client uses)")
}

// parse returns the configuration of the flags; nil when none was given. A flag that only
// refines authentication configures it too: it is an error without an issuer.
func (o *authOptions) parse(given func(string) bool) (*workload.Auth, error) {
	if !slices.ContainsFunc(authFlags, given) {
		return nil, nil
	}
	a := o.Auth
	var errs []error
	if o.clientSecret != "" && a.ClientID == "" {
		errs = append(errs, errors.New("--oidc-client-secret needs --oidc-client-id"))
	}
	var err error
	if a.AuthTokenFile, err = readable("jwks-auth-token-file", a.AuthTokenFile); err != nil {
		errs = append(errs, err)
	}
	return &a, errors.Join(errs...)
}

// readable returns the absolute path of a file that a flag names, which must exist.
func readable(flag, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	absolute, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(absolute)
	}
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	return absolute, nil
}

// maxAuthFile bounds the file of --auth, in bytes.
const maxAuthFile = 4 << 20

// readExternalAuth reads the resources of --auth: an authorization server for the clients, and
// how the gateway authenticates at the server. Either may be nil; both are without it.
func readExternalAuth(file string) (server *externalauth.EmbeddedAuthServer, outgoing *externalauth.Spec, err error) {
	if file == "" {
		return nil, nil, nil
	}
	content, err := runflag.ReadFile(file, maxAuthFile)
	if err != nil {
		return nil, nil, fmt.Errorf("--auth: %w", err)
	}
	resources, err := externalauth.Parse(content)
	if err != nil {
		return nil, nil, fmt.Errorf("--auth %s: %w", file, err)
	}
	for _, r := range resources {
		switch {
		case r.Spec.Outgoing() && outgoing != nil:
			return nil, nil, fmt.Errorf("--auth %s: it has several resources for requests to the server; one is used", file)
		case r.Spec.Outgoing():
			outgoing = &r.Spec
		case server != nil:
			return nil, nil, fmt.Errorf("--auth %s: it has several embedded authorization servers; one is used", file)
		default:
			server = r.Spec.EmbeddedAuthServer
		}
	}
	return server, outgoing, nil
}

// serverAuthFlags are the flags of authentication that count with an embedded authorization
// server.
var serverAuthFlags = []string{"resource-url", "oidc-scopes"}

// setAuthServer makes the embedded authorization server the issuer of the clients' tokens. An
// issuer on this machine determines the port.
func setAuthServer(o *options, s *workload.Spec, x *externalauth.EmbeddedAuthServer) error {
	for _, flag := range authFlags {
		if o.given(flag) && !slices.Contains(serverAuthFlags, flag) {
			s.Auth = nil // its own faults do not matter
			return fmt.Errorf("--%s is of another issuer than the embedded authorization server of --auth; give one of them", flag)
		}
	}
	if port := workload.AuthServerPort(x); port != 0 && !o.given("proxy-port") {
		s.Proxy.Port = port
	}
	s.SetAuthServer(x, o.auth.ResourceURL, o.auth.Scopes)
	return nil
}
