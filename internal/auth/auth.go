// Package auth identifies callers: it is the one validator of bearer tokens, for the
// registry server and for gateways. It depends on HTTP and OAuth only, not on the
// registry or on MCP.
//
// A [Validator] holds identity [Provider]s in their configured order. A JWT is
// verified by the provider whose issuer it names, with keys from that provider's key
// set (JWKS). An opaque token is sent to the introspection endpoint of each provider
// that has one (RFC 7662). The first provider that accepts the token determines the
// [Identity]. A token that cannot be verified is rejected.
//
// Providers fail, and have no more trust than necessary. Keys are fetched in the
// background and used for a day while their provider is unreachable. A slow or
// unreachable provider delays only its own tokens. Requests of unknown callers cause
// requests to a provider at a bounded rate. The bounds are in limits.go.
//
// A [Resource] is the metadata of the protected resource (RFC 9728) and its error
// responses (RFC 6750 section 3). [Require] combines both as HTTP middleware for the
// routes that need it.
//
// Tokens, secrets, and parser errors that may quote them, are not in errors or logs.
// The reasons for a rejection are in its Attempts: the provider, and the expected and
// received values of public claims. [Inspect] returns the same without any request.
package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// Provider is an identity provider whose access tokens are accepted. The fields
// are those of the registry's configuration.
type Provider struct {
	// Name is for logs and metrics; it is unique among the providers.
	Name string
	// IssuerURL equals the token's iss byte for byte. It may be "" with
	// IntrospectionOnly: the endpoint itself vouches for its tokens then.
	IssuerURL string
	// Audience must be among the token's aud.
	Audience string
	// JWKSURL is where the keys are; "" finds it by OIDC discovery.
	JWKSURL string
	// Keys, if it is set, returns the JSON of the key set in place of a request: the
	// issuer is in this process.
	Keys func() ([]byte, error)
	// IntrospectionURL accepts opaque tokens too (RFC 7662); ClientID and the
	// secret in ClientSecretFile, which is read for each request, authenticate
	// to it. ClientSecret, if it is set, returns the secret instead.
	IntrospectionURL string
	ClientID         string
	ClientSecretFile string
	ClientSecret     func() (string, error)
	// IntrospectionOnly introspects every token, JWTs too, and fetches no keys.
	IntrospectionOnly bool
	// CACertPath is a PEM file of authorities trusted beside the system's. It is
	// looked at before each request, and read again when it has changed.
	CACertPath string
	// AuthTokenFile holds a bearer token for requests to the provider, but for
	// introspection with a ClientID. It is read for each request, and sent only
	// to the origins of the URLs above.
	AuthTokenFile string
	// AllowPrivateIP permits connections to private addresses.
	AllowPrivateIP bool
	// AllowHTTP permits plain HTTP to every host: anyone on the way can replace the
	// keys. It is for tests.
	AllowHTTP bool
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
	if p.IssuerURL == "" && !p.IntrospectionOnly {
		add("issuerUrl", "is required")
	} else if p.IssuerURL != "" {
		if err := p.checkEndpoint(p.IssuerURL); err != nil {
			add("issuerUrl", "%w", err)
		}
	}
	if p.IntrospectionOnly && p.IntrospectionURL == "" {
		add("introspectionUrl", "is required where tokens are only introspected")
	}
	if p.IntrospectionOnly && p.JWKSURL != "" {
		add("jwksUrl", "is not used where tokens are only introspected")
	}
	for _, endpoint := range [][2]string{{"jwksUrl", p.JWKSURL}, {"introspectionUrl", p.IntrospectionURL}} {
		if endpoint[1] == "" {
			continue
		}
		if err := p.checkKeysURL(endpoint[1]); err != nil {
			add(endpoint[0], "%w", err)
		}
	}
	if p.ClientSecretFile != "" && p.ClientID == "" {
		add("clientId", "is required with clientSecretFile")
	} else if p.ClientSecret != nil && p.ClientID == "" {
		add("clientId", "is required with a client secret")
	}
	if p.ClientID != "" && p.IntrospectionURL == "" {
		add("introspectionUrl", "is required with clientId, which is used for nothing else")
	}
	return errors.Join(errs...)
}

// checkKeysURL is netguard's rule for endpoints, but for a query, which some
// providers' key sets and introspection endpoints have.
func (p *Provider) checkKeysURL(raw string) error {
	path, query, has := strings.Cut(raw, "?")
	if has && strings.Contains(query, "#") {
		return fmt.Errorf("%q must not have a fragment", raw)
	}
	return p.checkEndpoint(path)
}

// checkEndpoint is netguard's rule for endpoints.
func (p *Provider) checkEndpoint(raw string) error {
	if p.AllowHTTP {
		return netguard.CheckInsecureEndpoint(raw)
	}
	return netguard.CheckEndpoint(raw)
}

// Identity is the caller, as a provider asserts it. All requests with the same token
// share it: it must not be changed.
type Identity struct {
	Provider string // Provider.Name
	Issuer   string
	Subject  string
	// Scopes are those of the token's scope, or scp, claim.
	Scopes []string
	// Expires is when the token expires; the zero time when unknown (introspection
	// without exp).
	Expires time.Time
	// Claims are all claims of the token, or all members of the introspection
	// answer, as encoding/json decodes them with numbers as json.Number.
	Claims map[string]any
}

// HasScope reports whether the token carries the scope.
func (id *Identity) HasScope(scope string) bool {
	return slices.Contains(id.Scopes, scope)
}

// Attempt is one provider's rejection of a token. Without Provider, it is a fault of
// the token for any provider.
type Attempt struct {
	Provider string
	// Reason is a sentence for the operator, with the failing URL where a
	// request failed.
	Reason string
	// Expected and Got are the values that did not match, of claims that are
	// no secrets (iss, aud, typ, alg), or "".
	Expected, Got string
	// Skipped: the token is of another provider.
	Skipped bool
}

func (a Attempt) String() string {
	s := a.Reason
	if a.Provider != "" {
		s = a.Provider + ": " + s
	}
	if a.Expected != "" || a.Got != "" {
		s += fmt.Sprintf(" (expected %q, got %q)", a.Expected, a.Got)
	}
	return s
}

// Rejection is why a token was rejected. Its Error text may be sent to the caller;
// the Attempts are for the log.
type Rejection struct {
	Attempts []Attempt
	// Unavailable: a provider that might accept the token could not be reached. The
	// token is rejected nevertheless.
	Unavailable bool
}

func (r *Rejection) Error() string { return "the access token is not valid here" }

// Reasons are the attempts for a log line: a bounded number, those that were not
// skipped first, and the number of the others.
func (r *Rejection) Reasons() []string {
	attempts := slices.Clone(r.Attempts)
	slices.SortStableFunc(attempts, func(a, b Attempt) int {
		switch {
		case a.Skipped == b.Skipped:
			return 0
		case b.Skipped:
			return -1
		}
		return 1
	})
	shown := attempts[:min(len(attempts), maxReasons)]
	var reasons []string
	for _, a := range shown {
		reasons = append(reasons, plaintext.Excerpt(a.String(), maxReason))
	}
	if more := len(attempts) - len(shown); more > 0 {
		reasons = append(reasons, fmt.Sprintf("and %d more", more))
	}
	return reasons
}
