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
// Providers fail, and are not trusted more than need be. Keys are fetched in the
// background and used for a day without their provider; a provider that is slow
// or gone delays nobody's tokens but its own; what a stranger sends causes
// requests to a provider at a bounded rate only. The bounds are in limits.go.
//
// A [Resource] is the other half: what a protected resource says of itself
// (RFC 9728) and how it refuses (RFC 6750 section 3). [Require] joins the two
// into HTTP middleware, put on the routes that need it.
//
// No token, secret or parser's message about one leaves this package, not in
// errors and not in logs. Why a token was refused is in a [Rejection]'s Attempts:
// provider, and expected and found values of public claims. [Inspect] says the
// same of a token without asking anybody.
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
	// IssuerURL equals the token's iss byte for byte.
	IssuerURL string
	// Audience must be among the token's aud.
	Audience string
	// JWKSURL is where the keys are; "" finds it by OIDC discovery.
	JWKSURL string
	// IntrospectionURL accepts opaque tokens too (RFC 7662); ClientID and the
	// secret in ClientSecretFile, which is read for each request, authenticate
	// to it.
	IntrospectionURL string
	ClientID         string
	ClientSecretFile string
	// CACertPath is a PEM file of authorities trusted beside the system's. It is
	// looked at before each request, and read again when it has changed.
	CACertPath string
	// AuthTokenFile holds a bearer token for requests to the provider, but for
	// introspection with a ClientID. It is read for each request, and sent only
	// to the origins of the URLs above.
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
	} else if err := netguard.CheckEndpoint(p.IssuerURL); err != nil {
		add("issuerUrl", "%w", err)
	}
	for _, endpoint := range [][2]string{{"jwksUrl", p.JWKSURL}, {"introspectionUrl", p.IntrospectionURL}} {
		if endpoint[1] == "" {
			continue
		}
		if err := checkKeysURL(endpoint[1]); err != nil {
			add(endpoint[0], "%w", err)
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

// checkKeysURL is netguard's rule for endpoints, but for a query, which some
// providers' key sets and introspection endpoints have.
func checkKeysURL(raw string) error {
	path, query, has := strings.Cut(raw, "?")
	if has && strings.Contains(query, "#") {
		return fmt.Errorf("%q must not have a fragment", raw)
	}
	return netguard.CheckEndpoint(path)
}

// Identity is who is calling, as a provider vouched for it. It is shared by all
// requests with the same token: nobody may change it.
type Identity struct {
	Provider string // Provider.Name
	Issuer   string
	Subject  string
	// Scopes are those of the token's scope, or scp, claim.
	Scopes []string
	// Expires is when the token ends; the zero time when it is not known
	// (introspection without exp).
	Expires time.Time
	// Claims are all claims of the token, or all members of the introspection
	// answer, as encoding/json decodes them with numbers as json.Number.
	Claims map[string]any
}

// HasScope reports whether the token carries the scope.
func (id *Identity) HasScope(scope string) bool {
	return slices.Contains(id.Scopes, scope)
}

// Attempt is one provider's refusal of a token; with no Provider, a fault of the
// token that is nobody's business in particular.
type Attempt struct {
	Provider string
	// Reason is a sentence for the operator, with the failing URL where a
	// request failed.
	Reason string
	// Expected and Got are the values that did not match, of claims that are
	// no secrets (iss, aud, typ, alg), or "".
	Expected, Got string
	// Skipped: the provider was not asked, for the token is none of its.
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

// Rejection is why a token was refused. Its Error text may be shown to the
// caller; the Attempts are for the log.
type Rejection struct {
	Attempts []Attempt
	// Unavailable: a provider that might have accepted the token could not be
	// asked. The answer is a refusal all the same.
	Unavailable bool
}

func (r *Rejection) Error() string { return "the access token is not valid here" }

// Reasons are what a line of the log says of a rejection: the first few attempts,
// those before all others that came nearest, for the provider was asked, and how
// many more there are. So the line has a bound however many providers there are.
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
