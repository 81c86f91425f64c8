// Package auth tells who is calling: it is the one validator of bearer tokens,
// for the registry, for every workload's gateway and for what comes later. It
// knows HTTP and OAuth, and nothing of registries or of MCP.
//
// A [Validator] holds identity [Provider]s in their configured order. A token
// that looks like a JWT is verified by the provider whose issuer it names, with
// keys from that provider's key set (JWKS); an opaque token is shown to the
// introspection endpoint of each provider that has one (RFC 7662). The first
// acceptance wins and yields an [Identity]. Whatever cannot be verified is
// refused: there is no half-accepted token.
//
// A [Resource] is the other half: what a protected resource says of itself
// (RFC 9728) and how it refuses (RFC 6750 section 3). [Require] joins the two
// into HTTP middleware, put on the routes that need it.
//
// No token, secret or parser's message about one leaves this package, not in
// errors and not in logs. Why a token was refused is in a [Rejection]'s Attempts:
// provider, and expected and found values of public claims.
package auth

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Provider is an identity provider whose access tokens are accepted. The fields
// are those of the registry's configuration.
type Provider struct {
	// Name is for logs and metrics; it is unique among the providers.
	Name string
	// IssuerURL equals the token's iss byte for byte.
	IssuerURL string
	// Audience must be among the token's aud.
	Audience string
	// JWKSURL is where the keys are; "" finds it by OIDC discovery.
	JWKSURL string
	// IntrospectionURL accepts opaque tokens too (RFC 7662); ClientID and the
	// secret in ClientSecretFile authenticate to it.
	IntrospectionURL string
	ClientID         string
	ClientSecretFile string
	// CACertPath is a PEM file of authorities trusted beside the system's.
	CACertPath string
	// AuthTokenFile holds a bearer token for requests to the provider. It is
	// read for each request and sent to the configured origin only.
	AuthTokenFile string
	// AllowPrivateIP permits connections to private addresses.
	AllowPrivateIP bool
}

// Validate reports everything that is wrong with p, each error naming the
// configuration's field.
func (p *Provider) Validate() error {
	var errs []error
	add := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{field}, args...)...))
	}
	if p.Name == "" {
		add("name", "is required")
	}
	if p.Audience == "" {
		add("audience", "is required; without it any token of the issuer would be accepted")
	}
	if p.IssuerURL == "" {
		add("issuerUrl", "is required")
	} else if err := checkEndpoint(p.IssuerURL); err != nil {
		add("issuerUrl", "%w", err)
	}
	for field, v := range map[string]string{"jwksUrl": p.JWKSURL, "introspectionUrl": p.IntrospectionURL} {
		if v == "" {
			continue
		}
		if err := checkEndpoint(v); err != nil {
			add(field, "%w", err)
		}
	}
	if p.ClientSecretFile != "" && p.ClientID == "" {
		add("clientId", "is required with clientSecretFile")
	}
	if p.ClientID != "" && p.IntrospectionURL == "" {
		add("introspectionUrl", "is required with clientId, which is used for nothing else")
	}
	return errors.Join(errs...)
}

// checkEndpoint: absolute, HTTPS unless the host is this machine, no user
// information, query or fragment (RFC 8414 section 2, for issuers; endpoints
// with a query are allowed by RFC 6749 section 3.1 but nobody has one).
func checkEndpoint(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%q is not an absolute http(s) URL", raw)
	case u.User != nil || u.Fragment != "" || u.RawQuery != "":
		return fmt.Errorf("%q must not have user information, a query or a fragment", raw)
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return fmt.Errorf("%q must be HTTPS; plain HTTP is for this machine only", raw)
	}
	return nil
}

func isLoopback(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || host == "::1" || strings.HasPrefix(host, "127.")
}

// Identity is who is calling, as a provider vouched for it.
type Identity struct {
	Provider string // Provider.Name
	Issuer   string
	Subject  string
	// Scopes are those of the token's scope, or scp, claim.
	Scopes []string
	// Expires is when the token ends; the zero time when it is not known
	// (introspection without exp).
	Expires time.Time
	// Claims are all claims of the token, as decoded by encoding/json with
	// numbers as json.Number.
	Claims map[string]any
}

// HasScope reports whether the token carries the scope.
func (id *Identity) HasScope(scope string) bool {
	for _, s := range id.Scopes {
		if s == scope {
			return true
		}
	}
	return false
}

// Attempt is one provider's refusal of a token.
type Attempt struct {
	Provider string
	// Reason is a sentence for the operator, with the failing URL where a
	// request failed.
	Reason string
	// Expected and Got are the values that did not match, of claims that are
	// no secrets (iss, aud, typ, alg), or "".
	Expected, Got string
}

func (a Attempt) String() string {
	s := a.Provider + ": " + a.Reason
	if a.Expected != "" || a.Got != "" {
		s += fmt.Sprintf(" (expected %q, got %q)", a.Expected, a.Got)
	}
	return s
}

// Rejection is why a token was refused. Its Error text may be shown to the
// caller; the Attempts are for the log.
type Rejection struct {
	Attempts []Attempt
	// Unavailable: a provider that might have accepted the token could not be
	// asked. The answer is a refusal all the same.
	Unavailable bool
}

func (r *Rejection) Error() string { return "the access token is not valid here" }

// limits of what a token and a provider's answer may be.
const (
	maxToken    = 16 << 10
	maxResponse = 1 << 20
	httpTimeout = 10 * time.Second
)
