package auth

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/toolhaven/toolhaven/internal/oauth"
)

// provider is a running Provider: its keys and its HTTP client.
type provider struct {
	Provider
	out    *outbound
	keys   *keySet
	now    func() time.Time
	leeway time.Duration
	log    *slog.Logger

	// asking and waiting are semaphores for introspections.
	asking, waiting chan struct{}
	// slow: its last result took longer than patience.
	slow atomic.Bool

	mu         sync.Mutex
	discovered string // jwks_uri, once discovery has succeeded
	discovery  time.Time
}

func newProvider(p Provider, opt *Options, tasks *tasks) (*provider, error) {
	log := opt.Log.With(slog.String("provider", p.Name))
	pr := &provider{
		Provider: p, now: opt.Now, leeway: opt.Leeway, log: log,
		asking: make(chan struct{}, maxAsking), waiting: make(chan struct{}, maxAsking+maxWaiting),
	}
	var err error
	if pr.out, err = newOutbound(&pr.Provider, opt.Client, log); err != nil {
		return nil, err
	}
	pr.keys = newKeySet()
	pr.keys.fetch, pr.keys.now, pr.keys.log, pr.keys.tasks = pr.fetchKeys, opt.Now, log, tasks
	pr.keys.observe = func(outcome string) { opt.ObserveKeys(p.Name, outcome) }
	return pr, nil
}

// verdict is the acceptance of a token. It is shared and does not change.
type verdict struct {
	identity *Identity
	provider *provider
	// revision is that of the keys which verified a JWT; 0 is introspected.
	revision uint64
	// until is when its cache entry expires.
	until time.Time
}

// verifyHeld verifies a JWT with the held keys. more, if not nil, fetches keys with
// which the result may differ.
func (p *provider) verifyHeld(t *jwt) (v *verdict, r *refusal, more func(context.Context) error) {
	if t.fault != nil {
		return nil, t.fault, nil
	}
	revision, r, more := p.keys.verifyHeld(t)
	if r != nil {
		return nil, r, more
	}
	v, r = p.accept(t.claims, revision)
	return v, r, nil
}

// verify verifies a JWT, and fetches keys if the result may differ with them.
func (p *provider) verify(ctx context.Context, t *jwt) (*verdict, *refusal) {
	v, r, more := p.verifyHeld(t)
	if more == nil {
		return v, r
	}
	err := more(ctx)
	if v, again, _ := p.verifyHeld(t); err == nil || v != nil {
		return v, again
	}
	if r.unavailable || r.unknownKey {
		return nil, &refusal{reason: fmt.Sprintf("its keys cannot be fetched: %v", err), got: r.got, unavailable: true}
	}
	return nil, r
}

// accept applies the rules on claims to a JWT with a verified signature (revision is
// that of the keys) or to an introspection response (0).
func (p *provider) accept(claims map[string]any, revision uint64) (*verdict, *refusal) {
	s := subject{claims: claims, provider: &p.Provider, now: p.now(), leeway: p.leeway, introspected: revision == 0}
	expires, r := s.check()
	if r != nil {
		return nil, r
	}
	until := s.now.Add(cacheFor)
	if !expires.IsZero() && expires.Before(until) {
		until = expires
	}
	sub, _ := claims["sub"].(string)
	return &verdict{
		identity: &Identity{Provider: p.Name, Issuer: p.issuerOf(claims), Subject: sub, Scopes: scopesOf(claims), Expires: expires, Claims: claims},
		provider: p, revision: revision, until: until,
	}, nil
}

// issuerOf is the issuer of an accepted token. Without a configured one it is that of
// the introspection response, or the endpoint.
func (p *provider) issuerOf(claims map[string]any) string {
	iss, _ := claims["iss"].(string)
	return cmp.Or(p.IssuerURL, iss, p.IntrospectionURL)
}

// fetchKeys fetches the provider's key set from JWKSURL or the discovered URL. When
// that fails, discovery is repeated: the keys may have moved.
func (p *provider) fetchKeys(ctx context.Context) ([]jose.JSONWebKey, error) {
	if p.Keys != nil {
		body, err := p.Keys()
		if err != nil {
			return nil, err
		}
		keys, _, err := decodeKeys(body)
		return keys, err
	}
	if p.JWKSURL != "" {
		return p.getKeys(ctx, p.JWKSURL)
	}
	if known := p.known(); known != "" {
		if keys, err := p.getKeys(ctx, known); err == nil {
			return keys, nil
		}
	}
	from, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	return p.getKeys(ctx, from)
}

// known returns the discovered jwks_uri while it is fresh, else "".
func (p *provider) known() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now().Sub(p.discovery) >= discoveryFresh {
		return ""
	}
	return p.discovered
}

func (p *provider) getKeys(ctx context.Context, from string) ([]jose.JSONWebKey, error) {
	body, err := p.out.get(ctx, from)
	if err != nil {
		return nil, err
	}
	keys, skipped, err := decodeKeys(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if skipped > 0 {
		p.log.Debug("some keys of the set are not for verifying tokens", slog.Int("keys", len(keys)), slog.Int("leftOut", skipped))
	}
	return keys, nil
}

// discover finds jwks_uri in the issuer's metadata (OpenID Connect Discovery 1.0
// section 4).
func (p *provider) discover(ctx context.Context) (string, error) {
	issuer, err := url.Parse(p.IssuerURL)
	if err != nil {
		return "", err
	}
	get := func(ctx context.Context, from string) (*oauth.Response, error) {
		body, err := p.out.get(ctx, from)
		return &oauth.Response{Status: http.StatusOK, Body: body}, err
	}
	locations := oauth.Locations(issuer)
	var found keysLocation
	from, err := oauth.Discover(ctx, get, p.IssuerURL, locations[len(locations)-1:], &found)
	if err != nil {
		return "", err
	}
	if err := p.checkKeysURL(found.URL); err != nil {
		return "", fmt.Errorf("%s: jwks_uri: %w", from, err)
	}
	p.mu.Lock()
	p.discovered, p.discovery = found.URL, p.now()
	p.mu.Unlock()
	return found.URL, nil
}

// keysLocation is what is used of an issuer's metadata.
type keysLocation struct {
	URL string `json:"jwks_uri"`
}
