package workload

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/auth"
)

// Auth is how the gateway authenticates its clients (MCP 2026-07-28, basic/authorization).
type Auth struct {
	// IssuerURL equals iss of the accepted tokens. It may be left out when every token is
	// introspected.
	IssuerURL string `json:"issuerUrl,omitempty"`
	// Audience must be among aud of a token; "" is ResourceURL.
	Audience string `json:"audience,omitempty"`
	// JWKSURL is where the issuer's keys are; "" finds it by OIDC discovery.
	JWKSURL string `json:"jwksUrl,omitempty"`
	// IntrospectionURL accepts opaque tokens (RFC 7662). ClientID, and the secret in the
	// secrets store under the reference ClientSecret, authenticate to it.
	IntrospectionURL string `json:"introspectionUrl,omitempty"`
	ClientID         string `json:"clientId,omitempty"`
	ClientSecret     string `json:"clientSecret,omitempty"`
	// Scopes are advertised to clients (RFC 9728). They are not required.
	Scopes []string `json:"scopes,omitempty"`
	// AllowHTTP permits an issuer, and its keys, at http:// on any host.
	AllowHTTP bool `json:"allowHTTP,omitempty"`
	// AllowPrivateIP permits private addresses of the issuer, its keys and introspection.
	AllowPrivateIP bool `json:"allowPrivateIP,omitempty"`
	// AuthTokenFile holds a bearer token for requests to the issuer.
	AuthTokenFile string `json:"authTokenFile,omitempty"`
	// ResourceURL is the URL at which clients reach the gateway; "" is that of each
	// request.
	ResourceURL string `json:"resourceUrl,omitempty"`
}

// Provider is the issuer of the accepted tokens, for package auth. secrets returns the
// value of a reference.
func (s *Spec) Provider(secrets func(ref string) (string, error)) auth.Provider {
	a := s.Auth
	p := auth.Provider{
		Name: "oidc", IssuerURL: a.IssuerURL, Audience: a.Audience, JWKSURL: a.JWKSURL,
		IntrospectionURL: a.IntrospectionURL, IntrospectionOnly: a.IssuerURL == "", ClientID: a.ClientID,
		CACertPath: s.CABundle, AuthTokenFile: a.AuthTokenFile, AllowPrivateIP: a.AllowPrivateIP, AllowHTTP: a.AllowHTTP,
	}
	if p.Audience == "" {
		// A token for this resource names it (RFC 8707 section 2).
		p.Audience = a.ResourceURL
	}
	if a.ClientSecret != "" {
		p.ClientSecret = func() (string, error) { return secrets(a.ClientSecret) }
	}
	return p
}

// Resource describes the gateway as a protected resource (RFC 9728).
func (s *Spec) Resource() auth.ResourceConfig {
	return auth.ResourceConfig{URL: s.Auth.ResourceURL, Realm: s.Name, Scopes: s.Auth.Scopes}
}

// Issuer is who issues the tokens of the workload's clients, for a person; "" without
// authentication.
func (s *Spec) Issuer() string {
	switch {
	case s.Auth == nil:
		return ""
	case s.Auth.IssuerURL != "":
		return s.Auth.IssuerURL
	}
	return s.Auth.IntrospectionURL
}

// CAFiles is CABundle for package netguard.
func (s *Spec) CAFiles() []string {
	if s.CABundle == "" {
		return nil
	}
	return []string{s.CABundle}
}

// host is the host of ResourceURL, as it is in the Host header; "" for none.
func (a *Auth) host() string {
	if a == nil {
		return ""
	}
	u, err := url.Parse(a.ResourceURL)
	if err != nil {
		return ""
	}
	return u.Host
}

func validateAuth(s *Spec) error {
	a := s.Auth
	if a == nil {
		return nil
	}
	var errs []error
	add := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("authentication: "+format, args...))
	}
	switch {
	case a.IssuerURL == "" && a.JWKSURL != "":
		add("keys alone do not identify who issued a token; give the issuer's URL too (--oidc-issuer)")
	case a.IssuerURL == "" && a.IntrospectionURL == "":
		add("the issuer of the tokens is missing; give --oidc-issuer, or --oidc-introspection-url for opaque tokens")
	case a.Audience == "" && a.ResourceURL == "":
		add("the audience is missing, and without it any token of the issuer would be accepted; give --oidc-audience, or --resource-url, which is then the audience")
	default:
		provider := s.Provider(nil)
		for _, err := range faults(provider.Validate()) {
			add("%w", err)
		}
	}
	if a.ResourceURL != "" {
		if _, err := auth.NewResource(s.Resource()); err != nil {
			add("%w", err)
		}
	}
	for _, scope := range a.Scopes {
		if !validScope(scope) {
			add("scope %q: a scope is one word of visible ASCII characters without quotation marks and backslashes", scope)
		}
	}
	return errors.Join(errs...)
}

// faults returns the errors that err joins.
func faults(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return slices.DeleteFunc([]error{err}, func(err error) bool { return err == nil })
}

// validScope reports whether s is a scope-token (RFC 6749 section 3.3).
func validScope(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}
