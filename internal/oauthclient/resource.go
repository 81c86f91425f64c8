package oauthclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/oauth"
)

// ErrOpen: the resource answers without a token.
var ErrOpen = errors.New("it needs no sign-in")

// protection is a resource's metadata (RFC 9728 section 2).
type protection struct {
	resource string   // its identifier, byte for byte
	issuers  []string // at least one, unless the user names one
	scopes   []string // to request, unless the user names some
	reach    reach
}

// wellKnownResource is where metadata is unless a challenge names a URL (RFC 9728
// section 3; MCP authorization, "Protected Resource Metadata Discovery
// Requirements").
const wellKnownResource = "/.well-known/oauth-protected-resource"

// maxIssuers and maxScopes bound the lists of a document.
const (
	maxIssuers = 32
	maxScopes  = 100
)

// parseTarget parses the URL that the user named.
func parseTarget(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q is not an http(s) URL", raw)
	case u.User != nil:
		return nil, fmt.Errorf("%s: the URL must not hold a name and password", u.Redacted())
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf("%s: a sign-in needs HTTPS: with plain HTTP the token can be read on its way", raw)
	}
	u.Fragment = ""
	return u, nil
}

// protection sends a request without a token and fetches the metadata that the 401
// response leads to.
func (s *Store) protection(ctx context.Context, target, probe *url.URL, r Request) (*protection, error) {
	near, err := s.within(reachAny) // the user named it
	if err != nil {
		return nil, err
	}
	defer near.close()
	refusal, err := near.refusal(ctx, probe.String(), r.Bodies)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Force:
	case refusal.Status >= 200 && refusal.Status < 300:
		return nil, ErrOpen
	case refusal.Status != http.StatusUnauthorized:
		return nil, fmt.Errorf("%s: it answers %d %s, neither with data nor with 401 Unauthorized", probe, refusal.Status, http.StatusText(refusal.Status))
	}
	// A malformed challenge is ignored: there are the well-known locations.
	challenges, _ := ParseChallenges(refusal.Header.Values("WWW-Authenticate"))
	challenge, _ := bearer(challenges, "resource_metadata")
	if r.AuthorizeURL != "" {
		return withoutMetadata(target, reachAny, challenge)
	}
	w, err := s.within(refusal.from)
	if err != nil {
		return nil, err
	}
	defer w.close()
	place, document, err := w.resourceMetadata(ctx, target, challenge.Params["resource_metadata"], refusal.from)
	if errors.Is(err, errNoMetadata) && r.Keyed {
		if r.Issuer == "" {
			// MCP 2025-03-26, "Authorization Base URL": the server is its own issuer.
			if _, notThere := s.server(ctx, netguard.Origin(target), refusal.from); notThere != nil {
				return nil, fmt.Errorf("%w; nor is it an authorization server itself (%w)", err, notThere)
			}
		}
		p, err := withoutMetadata(target, refusal.from, challenge)
		if err == nil && r.Issuer == "" {
			p.issuers = []string{netguard.Origin(target)}
		}
		return p, err
	}
	if err != nil {
		return nil, err
	}
	p, err := parseResource(document, probe, refusal.from)
	if err != nil {
		return nil, fmt.Errorf("the resource metadata at %s: %w", place, err)
	}
	// The challenge is authoritative (MCP authorization, "Scope Selection Strategy").
	if scope := challenge.Params["scope"]; scope != "" {
		if p.scopes, err = checkScopes(strings.Fields(scope)); err != nil {
			return nil, fmt.Errorf("the resource's challenge: %w", err)
		}
	}
	return p, nil
}

// resourceMetadata fetches the document from the URL of the challenge, else from the
// well-known location with the path inserted, else from that of the host.
func (w *web) resourceMetadata(ctx context.Context, target *url.URL, named string, near reach) (string, *answer, error) {
	if named != "" {
		u, err := near.checkURL("resource_metadata", named)
		if err != nil {
			return "", nil, err
		}
		// RFC 9728 section 3: the well-known location is on the resource's host.
		if netguard.Origin(u) != netguard.Origin(target) {
			return "", nil, fmt.Errorf("the challenge names metadata of another origin, %s, which is not trusted", oauth.Hide(netguard.Origin(u)))
		}
		a, err := w.get(ctx, u.String(), "")
		if err != nil {
			return "", nil, err
		}
		if a.Status != http.StatusOK {
			return "", nil, fmt.Errorf("%s: it answers %d instead of the resource's metadata", u, a.Status)
		}
		return u.String(), a, nil
	}
	inserted := wellKnownResource + strings.TrimSuffix(target.EscapedPath(), "/")
	for _, path := range slices.Compact([]string{inserted, wellKnownResource}) {
		place := netguard.Origin(target) + path
		a, err := w.get(ctx, place, "")
		if err != nil {
			return "", nil, err
		}
		if a.Status == http.StatusOK && !errors.Is(a.decode(&struct{}{}), oauth.ErrNotObject) {
			return place, a, nil
		}
		if a.Status >= 500 {
			return "", nil, fmt.Errorf("%s: it answers %d %s", place, a.Status, http.StatusText(a.Status))
		}
	}
	return "", nil, fmt.Errorf("%w in its challenge, nothing at %s", errNoMetadata, netguard.Origin(target)+wellKnownResource)
}

// errNoMetadata: the resource has no metadata.
var errNoMetadata = errors.New("it answers 401 Unauthorized and does not say where to sign in (RFC 9728): no resource_metadata")

// withoutMetadata is the protection of a resource that has no metadata: its URL is its
// identifier.
func withoutMetadata(target *url.URL, near reach, challenge Challenge) (*protection, error) {
	scopes, err := checkScopes(strings.Fields(challenge.Params["scope"]))
	return &protection{resource: target.String(), scopes: scopes, reach: near}, err
}

// refusal sends requests without a token until one is answered with 401: those with the
// bodies, then a GET. It returns the last response.
func (w *web) refusal(ctx context.Context, target string, bodies [][]byte) (*answer, error) {
	if len(bodies) == 0 {
		return w.get(ctx, target, "")
	}
	for _, body := range bodies {
		a, err := w.probe(ctx, target, "", body)
		if err != nil || a.Status == http.StatusUnauthorized {
			return a, err
		}
	}
	return w.probe(ctx, target, "", nil)
}

func parseResource(a *answer, asked *url.URL, near reach) (*protection, error) {
	var doc struct {
		Resource string   `json:"resource"`
		Issuers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
		Methods  []string `json:"bearer_methods_supported"`
		DPoP     bool     `json:"dpop_bound_access_tokens_required"`
	}
	if err := a.decode(&doc); err != nil {
		return nil, err
	}
	if doc.Resource == "" {
		return nil, errors.New(`it has no "resource"`)
	}
	u, err := near.checkURL("resource", doc.Resource)
	if err != nil {
		return nil, err
	}
	// RFC 9728 section 3.3: the document of another resource must not be used.
	if !covers(u, asked) {
		return nil, fmt.Errorf("it is about %s, and %s was asked", oauth.Hide(doc.Resource), asked.Redacted())
	}
	if len(doc.Issuers) > maxIssuers {
		return nil, fmt.Errorf("it names more than %d authorization servers", maxIssuers)
	}
	if doc.Methods != nil && !slices.Contains(doc.Methods, "header") {
		return nil, errors.New("it does not accept tokens in the Authorization header, and no other place is safe")
	}
	if doc.DPoP {
		return nil, errors.New("it requires tokens bound by DPoP (RFC 9449), which thv does not support yet")
	}
	scopes, err := checkScopes(doc.Scopes)
	if err != nil {
		return nil, err
	}
	return &protection{resource: doc.Resource, issuers: doc.Issuers, scopes: scopes, reach: near}, nil
}

// issuer selects the authorization server. One that the user names may have any
// address.
func (p *protection) issuer(named string) (string, reach, error) {
	if named != "" {
		if len(p.issuers) > 0 && !slices.Contains(p.issuers, named) {
			return "", "", fmt.Errorf("%s does not accept tokens of %s; it names %s", p.resource, named, oauth.Hide(strings.Join(p.issuers, ", ")))
		}
		return named, reachAny, nil
	}
	if len(p.issuers) == 0 {
		return "", "", fmt.Errorf("%s names no authorization server", p.resource)
	}
	return p.issuers[0], p.reach, nil
}

// checkScopes: RFC 6749 section 3.3.
func checkScopes(scopes []string) ([]string, error) {
	if len(scopes) > maxScopes {
		return nil, fmt.Errorf("there are more than %d scopes", maxScopes)
	}
	for _, s := range scopes {
		if s == "" || len(s) > 256 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			return nil, fmt.Errorf("%q is not a scope", oauth.Hide(s))
		}
	}
	return scopes, nil
}

// covers reports whether the identifier of a resource is the requested URL, or a
// prefix of it that ends before a slash.
func covers(resource, asked *url.URL) bool {
	if netguard.Origin(resource) != netguard.Origin(asked) || resource.RawQuery != "" && resource.RawQuery != asked.RawQuery {
		return false
	}
	of, in := strings.TrimRight(resource.EscapedPath(), "/"), strings.TrimRight(asked.EscapedPath(), "/")
	return of == in || strings.HasPrefix(in, of+"/")
}
