package auth

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	jose "github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"
)

// keySet holds a provider's signing keys. run fetches them when it starts and then
// repeatedly in the background, so that a request waits for a fetch only when its key
// is missing. One fetch runs at a time, and all callers wait for that one.
type keySet struct {
	fetch func(ctx context.Context) ([]jose.JSONWebKey, error)
	now   func() time.Time
	// observe is called with the outcome of each fetch: "fetched" or "failed".
	observe func(outcome string)
	log     *slog.Logger
	tasks   *tasks

	// held is read by every validation without a lock; nil before the first success.
	held atomic.Pointer[heldKeys]

	mu      sync.Mutex
	running *fetching
	tried   time.Time                   // start of the last fetch
	lastErr error                       // of the last fetch that ended
	retry   *backoff.ExponentialBackOff // pauses in the background after failures
	unknown *rate.Limiter               // of fetches for unknown key ids
	missed  map[string]time.Time        // unknown key ids, and when they were fetched for
}

func newKeySet() *keySet {
	return &keySet{
		retry:   &backoff.ExponentialBackOff{InitialInterval: keysRetry, Multiplier: 2, MaxInterval: keysRetryMax, RandomizationFactor: 0.1},
		unknown: rate.NewLimiter(rate.Every(unknownKidEvery), unknownKidBurst),
	}
}

// heldKeys do not change after they are stored in held.
type heldKeys struct {
	keys    []jose.JSONWebKey
	byID    map[string][]jose.JSONWebKey
	fetched time.Time
	// revision changes when the keys do: cached verdicts of another one are void.
	revision uint64
}

// fetching is a fetch that runs; err may be read when done is closed.
type fetching struct {
	done chan struct{}
	err  error
}

// at returns the keys, and whether they may still be used now.
func (s *keySet) at(now time.Time) (held *heldKeys, usable bool) {
	held = s.held.Load()
	return held, held != nil && now.Sub(held.fetched) <= keysStale
}

// find returns the keys for a key id; without one, all (RFC 7515 section 4.1.4).
func (h *heldKeys) find(kid string) []jose.JSONWebKey {
	if kid == "" {
		return h.keys
	}
	return h.byID[kid]
}

// lookup finds held keys without waiting. usable is false when no keys are held.
func (s *keySet) lookup(kid string) (found []jose.JSONWebKey, revision uint64, usable bool) {
	now := s.now()
	held, usable := s.at(now)
	if !usable {
		return nil, 0, false
	}
	if now.Sub(held.fetched) > 2*keysFresh {
		// The background fetch is late: the machine slept, or fetches fail.
		_, _ = s.begin(func() bool { return now.Sub(s.tried) >= keysRetryMax })
	}
	return held.find(kid), held.revision, true
}

// verifyHeld checks the signature of a JWT with the held keys; revision is theirs. more, if
// not nil, fetches keys with which the result may differ.
func (s *keySet) verifyHeld(t *jwt) (revision uint64, r *refusal, more func(context.Context) error) {
	keys, revision, usable := s.lookup(t.kid)
	switch {
	case !usable:
		return 0, unavailable("its keys are not known yet"), s.await
	case len(keys) == 0:
		return 0, &refusal{reason: "no key of the provider has the token's key id", got: shorten(t.kid), unknownKey: true},
			func(ctx context.Context) error { return s.awaitUnknown(ctx, t.kid) }
	}
	bad, r := t.verify(keys)
	if bad {
		return 0, r, s.awaitReplaced
	}
	return revision, r, nil
}

// valid reports whether a verdict of a revision still holds.
func (s *keySet) valid(revision uint64) bool {
	held := s.held.Load()
	return held != nil && held.revision == revision
}

// The reasons to fetch keys while a token waits each have a rate, so that callers
// cannot cause a request for each token.

// await fetches keys when none are held.
func (s *keySet) await(ctx context.Context) error {
	return s.wait(ctx, func() bool { return s.tried.IsZero() || s.now().Sub(s.tried) >= keysRetry })
}

// awaitUnknown fetches for a key id that is not in the set: at the rate unknown, and
// for one key id once in unknownKidAgain. A failed fetch does not count as the latter:
// a new key must be found when the provider recovers.
func (s *keySet) awaitUnknown(ctx context.Context, kid string) error {
	return s.wait(ctx, func() bool {
		now := s.now()
		if last, ok := s.missed[kid]; ok && s.lastErr == nil && now.Sub(last) < unknownKidAgain || !s.unknown.AllowN(now, 1) {
			return false
		}
		if s.missed == nil || len(s.missed) >= unknownKids {
			s.missed = map[string]time.Time{}
		}
		s.missed[kid] = now
		return true
	})
}

// awaitReplaced fetches for a signature that its key does not verify.
func (s *keySet) awaitReplaced(ctx context.Context) error {
	return s.wait(ctx, func() bool {
		held := s.held.Load()
		now := s.now()
		return held != nil && now.Sub(held.fetched) >= badSignatureEvery && now.Sub(s.tried) >= badSignatureEvery
	})
}

var errKeysSlow = errors.New("the provider does not answer in time")

// wait waits for the running fetch, or for a new one if allowed. Otherwise it returns
// the error of the last one.
func (s *keySet) wait(ctx context.Context, allowed func() bool) error {
	f, lastErr := s.begin(allowed)
	if f == nil {
		return lastErr
	}
	slow := time.NewTimer(keysWait)
	defer slow.Stop()
	select {
	case <-f.done:
		return f.err
	case <-slow.C:
		return errKeysSlow
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin returns the running fetch, or starts one if allowed, which is called under
// the lock. Otherwise it returns the error of the last fetch.
func (s *keySet) begin(allowed func() bool) (*fetching, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return s.running, nil
	}
	if !allowed() {
		return nil, s.lastErr
	}
	f := &fetching{done: make(chan struct{})}
	// It serves all waiting requests and does not end with the one that started it.
	if !s.tasks.run(func(ctx context.Context) { s.work(ctx, f) }) {
		return nil, errClosed
	}
	s.running, s.tried = f, s.now()
	return f, nil
}

// work fetches the keys and stores them.
func (s *keySet) work(ctx context.Context, f *fetching) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	keys, err := s.fetch(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	f.err, s.lastErr, s.running = err, err, nil
	defer close(f.done)
	before := s.held.Load()
	if err != nil {
		s.observe("failed")
		age := "none"
		if before != nil {
			age = s.now().Sub(before.fetched).Round(time.Second).String()
		}
		s.log.Warn("cannot fetch keys", slog.Any("error", err), slog.String("keysAge", age))
		return
	}
	s.retry.Reset()
	s.held.Store(hold(before, keys, s.now()))
	s.observe("fetched") // after the keys are stored
}

// hold indexes keys that replace those before.
func hold(before *heldKeys, keys []jose.JSONWebKey, now time.Time) *heldKeys {
	held := &heldKeys{keys: keys, byID: make(map[string][]jose.JSONWebKey, len(keys)), fetched: now, revision: 1}
	for _, key := range keys {
		held.byID[key.KeyID] = append(held.byID[key.KeyID], key)
	}
	if before != nil {
		held.revision = before.revision
		if !sameKeys(before.keys, keys) {
			held.revision++
		}
	}
	return held
}

func sameKeys(a, b []jose.JSONWebKey) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, errX := a[i].MarshalJSON()
		y, errY := b[i].MarshalJSON()
		if errX != nil || errY != nil || string(x) != string(y) {
			return false
		}
	}
	return true
}

// run fetches keys now, again before they are old, and soon after a failure, until
// ctx ends.
func (s *keySet) run(ctx context.Context) {
	for {
		if f, _ := s.begin(func() bool { return true }); f != nil {
			select {
			case <-f.done:
			case <-ctx.Done():
				return
			}
		}
		pause := time.NewTimer(s.pause())
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

// pause is the time to the next fetch in the background, randomized so that replicas
// do not fetch all at once.
func (s *keySet) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastErr != nil {
		return s.retry.NextBackOff()
	}
	return keysFresh - rand.N(keysFresh/10)
}
