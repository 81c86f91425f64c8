package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/maypok86/otter/v2"
)

// Options are what a Validator needs beside its providers.
type Options struct {
	// Client makes the HTTP client for a provider: its authorities, its rule on
	// private addresses, no redirects. Required.
	Client func(Provider) (*http.Client, error)
	// Leeway is granted to clocks for JWTs; DefaultLeeway unless set. Negative
	// is none.
	Leeway time.Duration
	// Observe is called once for each validation by each provider, with
	// outcome "accepted", "rejected" or "unavailable". It may be nil.
	Observe func(provider, outcome string)
	Log     *slog.Logger
	// Now is the clock; time.Now unless set.
	Now func() time.Time
}

// DefaultLeeway is granted to clocks that differ.
const DefaultLeeway = 30 * time.Second

// A verdict is cached for at most cacheFor, and never beyond the token's end.
const (
	cacheFor  = 60 * time.Second
	cacheSize = 20_000
)

// Validator decides which tokens are accepted. It may be used concurrently.
type Validator struct {
	providers []*provider
	observe   func(provider, outcome string)
	now       func() time.Time
	cache     *otter.Cache[[sha256.Size]byte, verdict]
}

// verdict is a cached acceptance. A JWT's is void when its provider's keys have
// changed.
type verdict struct {
	identity *Identity
	until    time.Time
	provider *provider
	revision int // -1: introspected
}

// NewValidator makes a Validator. It asks no provider anything yet, so it works
// while providers are down.
func NewValidator(providers []Provider, opt Options) (*Validator, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case opt.Leeway == 0:
		opt.Leeway = DefaultLeeway
	case opt.Leeway < 0:
		opt.Leeway = 0
	}
	v := &Validator{observe: opt.Observe, now: opt.Now}
	if v.observe == nil {
		v.observe = func(string, string) {}
	}
	var errs []error
	names := map[string]bool{}
	for i, p := range providers {
		if err := p.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("providers[%d] %q: %w", i, p.Name, err))
			continue
		}
		if names[p.Name] {
			errs = append(errs, fmt.Errorf("providers[%d]: the name %q is used twice", i, p.Name))
			continue
		}
		names[p.Name] = true
		client, err := opt.Client(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("providers[%d] %q: %w", i, p.Name, err))
			continue
		}
		v.providers = append(v.providers, newProvider(p, client, opt))
	}
	if len(providers) == 0 {
		errs = append(errs, errors.New("no identity provider is configured"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var err error
	v.cache, err = otter.New(&otter.Options[[sha256.Size]byte, verdict]{MaximumSize: cacheSize})
	if err != nil {
		return nil, fmt.Errorf("token cache: %w", err)
	}
	return v, nil
}

// Validate says who is calling with token. The error is a *Rejection.
func (v *Validator) Validate(ctx context.Context, token string) (*Identity, error) {
	if len(token) == 0 || len(token) > maxToken {
		return nil, &Rejection{Attempts: []Attempt{{Reason: fmt.Sprintf("it is empty or longer than %d bytes", maxToken)}}}
	}
	key := sha256.Sum256([]byte(token))
	if hit, ok := v.cache.GetIfPresent(key); ok {
		if v.now().Before(hit.until) && (hit.revision < 0 || hit.revision == hit.provider.keys.current()) {
			return hit.identity, nil
		}
		v.cache.Invalidate(key)
	}
	got, err := v.decide(ctx, token)
	if err != nil {
		return nil, err
	}
	got.until = v.now().Add(cacheFor)
	if e := got.identity.Expires; !e.IsZero() && e.Before(got.until) {
		got.until = e
	}
	v.cache.Set(key, *got)
	return got.identity, nil
}

// decide asks the providers in order. A JWT is verified by the providers of its
// issuer only, and introspected there if that fails; an opaque token goes to
// every provider that introspects.
func (v *Validator) decide(ctx context.Context, token string) (*verdict, error) {
	rejection := &Rejection{}
	isJWT := looksLikeJWT(token)
	issuer := ""
	if isJWT {
		issuer = unverifiedIssuer(token)
	}
	for _, p := range v.providers {
		if isJWT && p.IssuerURL != issuer {
			rejection.Attempts = append(rejection.Attempts, Attempt{Provider: p.Name, Reason: "not asked: the token names another issuer", Expected: p.IssuerURL, Got: shorten(issuer)})
			continue
		}
		if isJWT {
			if id, revision, err := v.verifyJWT(ctx, p, token); err == nil {
				v.observe(p.Name, "accepted")
				return &verdict{identity: id, provider: p, revision: revision}, nil
			} else {
				v.note(rejection, p, err)
			}
		}
		if p.IntrospectionURL == "" {
			if !isJWT {
				rejection.Attempts = append(rejection.Attempts, Attempt{Provider: p.Name, Reason: "not asked: the token is opaque and the provider has no introspectionUrl"})
			}
			continue
		}
		id, err := p.introspect(ctx, token)
		if err == nil {
			v.observe(p.Name, "accepted")
			return &verdict{identity: id, provider: p, revision: -1}, nil
		}
		v.note(rejection, p, err)
	}
	return nil, rejection
}

func (v *Validator) verifyJWT(ctx context.Context, p *provider, token string) (*Identity, int, error) {
	jws, err := parseJWT(token)
	if err != nil {
		return nil, 0, err
	}
	// Read before the keys are used: if they change meanwhile, the verdict is
	// void at its first use, which costs one verification.
	revision := p.keys.current()
	id, err := p.accept(ctx, jws)
	if revision == 0 {
		revision = p.keys.current() // the first fetch made them
	}
	return id, revision, err
}

func (v *Validator) note(rejection *Rejection, p *provider, err error) {
	a := Attempt{Provider: p.Name, Reason: err.Error()}
	outcome := "rejected"
	var r *refusal
	if errors.As(err, &r) {
		a.Expected, a.Got = r.expected, r.got
		if r.unavailable {
			outcome, rejection.Unavailable = "unavailable", true
		}
	}
	v.observe(p.Name, outcome)
	rejection.Attempts = append(rejection.Attempts, a)
}
