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
	"golang.org/x/sync/singleflight"
)

// Options configure a Validator. The zero value is valid.
type Options struct {
	// Client returns the HTTP client for a provider, with its authorities and its
	// rule on private addresses. It is called again when the file CACertPath changes.
	// Redirects are never followed. If nil, clients of package netguard are used.
	Client func(Provider) (*http.Client, error)
	// Leeway is for clock skew; 0 is DefaultLeeway, negative is none.
	Leeway time.Duration
	// Observe is called once for each validation by each provider, with
	// outcome "accepted", "rejected" or "unavailable". It may be nil.
	Observe func(provider, outcome string)
	// ObserveKeys is called once for each fetch of a provider's keys, with
	// outcome "fetched" or "failed". It may be nil.
	ObserveKeys func(provider, outcome string)
	Log         *slog.Logger
	// Now is the clock; time.Now unless set.
	Now func() time.Time
}

// DefaultLeeway is the leeway for clock skew.
const DefaultLeeway = 30 * time.Second

func (o *Options) setDefaults() {
	ignore := func(string, string) {}
	if o.Client == nil {
		o.Client = guardedClient
	}
	if o.Observe == nil {
		o.Observe = ignore
	}
	if o.ObserveKeys == nil {
		o.ObserveKeys = ignore
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Leeway = leeway(o.Leeway)
}

// leeway is the value of Options.Leeway.
func leeway(d time.Duration) time.Duration {
	switch {
	case d == 0:
		return DefaultLeeway
	case d < 0:
		return 0
	}
	return d
}

// digest identifies a token: tokens themselves are not stored.
type digest = [sha256.Size]byte

// Validator validates access tokens. It may be used concurrently.
type Validator struct {
	providers []*provider
	observe   func(provider, outcome string)
	now       func() time.Time
	patience  time.Duration // see limits.go
	tasks     *tasks
	flights   singleflight.Group

	accepted *otter.Cache[digest, *verdict]
	refused  *otter.Cache[digest, remembered]
}

// remembered is a cached rejection.
type remembered struct {
	rejection *Rejection
	until     time.Time
}

// NewValidator returns a Validator without waiting for providers: keys are fetched in
// the background, until Close.
func NewValidator(providers []Provider, opt Options) (*Validator, error) {
	opt.setDefaults()
	v := &Validator{observe: opt.Observe, now: opt.Now, patience: patience, tasks: newTasks()}
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
		pr, err := newProvider(p, &opt, v.tasks)
		if err != nil {
			errs = append(errs, fmt.Errorf("providers[%d] %q: %w", i, p.Name, err))
			continue
		}
		v.providers = append(v.providers, pr)
	}
	if len(providers) == 0 {
		errs = append(errs, errors.New("no identity provider is configured"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var errA, errR error
	v.accepted, errA = otter.New(&otter.Options[digest, *verdict]{MaximumSize: cacheSize, Executor: func(f func()) { f() }})
	v.refused, errR = otter.New(&otter.Options[digest, remembered]{MaximumSize: refusals, Executor: func(f func()) { f() }})
	if err := errors.Join(errA, errR); err != nil {
		return nil, fmt.Errorf("token cache: %w", err)
	}
	for _, p := range v.providers {
		if !p.IntrospectionOnly {
			v.tasks.run(p.keys.run)
		}
	}
	return v, nil
}

// Close ends background fetches and waits for them. Tokens that need a provider are
// rejected from then on.
func (v *Validator) Close() {
	v.tasks.close()
	for _, p := range v.providers {
		p.out.close()
	}
}

// FetchKeys begins to fetch the keys of all providers.
func (v *Validator) FetchKeys() {
	for _, p := range v.providers {
		if !p.IntrospectionOnly {
			_, _ = p.keys.begin(func() bool { return true })
		}
	}
}

// Validate returns the identity of a token. The error is a *Rejection.
func (v *Validator) Validate(ctx context.Context, token string) (*Identity, error) {
	if !wellFormed(token) {
		return nil, &Rejection{Attempts: []Attempt{{Reason: fmt.Sprintf("it is empty, longer than %d bytes, or has characters that no token has", maxToken)}}}
	}
	key := sha256.Sum256([]byte(token))
	if id := v.known(key); id != nil {
		return id, nil
	}
	got, rejection := v.decide(ctx, key, token)
	if rejection != nil {
		return nil, rejection
	}
	v.accepted.Set(key, got)
	return got.identity, nil
}

// known returns the cached identity of a token. The entry of a JWT is void when its
// provider's keys have changed.
func (v *Validator) known(key digest) *Identity {
	hit := v.hit(key)
	if hit == nil {
		return nil
	}
	v.observe(hit.provider.Name, "accepted")
	return hit.identity
}

// hit returns the cache entry, if it still holds.
func (v *Validator) hit(key digest) *verdict {
	hit, ok := v.accepted.GetIfPresent(key)
	if !ok {
		return nil
	}
	if !v.now().Before(hit.until) || hit.revision > 0 && !hit.provider.keys.valid(hit.revision) {
		v.accepted.Invalidate(key)
		return nil
	}
	return hit
}
