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

// Options are what a Validator needs beside its providers. The zero value works.
type Options struct {
	// Client makes the HTTP client for a provider: its authorities, its rule on
	// private addresses. It is called again when the provider's CACertPath has
	// changed. Redirects are never followed, whatever the client says. If nil,
	// it is one of package netguard.
	Client func(Provider) (*http.Client, error)
	// Leeway is granted to clocks; DefaultLeeway unless set. Negative is none.
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

// DefaultLeeway is granted to clocks that differ.
const DefaultLeeway = 30 * time.Second

func (o *Options) setDefaults() {
	nobody := func(string, string) {}
	if o.Client == nil {
		o.Client = guardedClient
	}
	if o.Observe == nil {
		o.Observe = nobody
	}
	if o.ObserveKeys == nil {
		o.ObserveKeys = nobody
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Leeway = leeway(o.Leeway)
}

// leeway reads Options.Leeway.
func leeway(d time.Duration) time.Duration {
	switch {
	case d == 0:
		return DefaultLeeway
	case d < 0:
		return 0
	}
	return d
}

// digest stands for a token: tokens themselves are not kept.
type digest = [sha256.Size]byte

// Validator decides which tokens are accepted. It may be used concurrently.
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

// remembered is a refusal that stands for a moment.
type remembered struct {
	rejection *Rejection
	until     time.Time
}

// NewValidator makes a Validator. It waits for no provider: keys are fetched in
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
		v.tasks.run(p.keys.run)
	}
	return v, nil
}

// Close ends the work in the background and waits for it. Tokens that need a
// provider are refused from then on.
func (v *Validator) Close() {
	v.tasks.close()
	for _, p := range v.providers {
		p.out.close()
	}
}

// Validate says who is calling with token. The error is a *Rejection.
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

// known finds a token that was accepted a moment ago. A JWT's acceptance is void
// when its provider's keys have changed.
func (v *Validator) known(key digest) *Identity {
	hit := v.hit(key)
	if hit == nil {
		return nil
	}
	v.observe(hit.provider.Name, "accepted")
	return hit.identity
}

// hit is the acceptance in the cache, if it still holds.
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
