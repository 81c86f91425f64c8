package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
)

// How keys are kept.
const (
	// keysFresh: after this, keys are fetched again in the background.
	keysFresh = 15 * time.Minute
	// keysStale: for so long keys are used while the provider cannot be
	// reached; after that its tokens are refused.
	keysStale = 24 * time.Hour
	// refetchEvery bounds fetches on demand: for an unknown key id, a bad
	// signature, and after a failure.
	refetchEvery = 10 * time.Second
	// maxKeys bounds a key set.
	maxKeys = 100
)

// keySet is a provider's signing keys: fetched when first needed, refreshed in
// the background, fetched again at a bounded rate for a key id it does not know.
// Callers that need the same fetch wait for one; nobody else waits.
type keySet struct {
	fetch func(ctx context.Context) ([]jose.JSONWebKey, error)
	now   func() time.Time
	log   *slog.Logger

	flight singleflight.Group

	mu       sync.Mutex
	keys     []jose.JSONWebKey
	fetched  time.Time // last success
	tried    time.Time // last attempt
	lastErr  error     // of the last attempt
	revision int       // changes with the keys
}

// find returns the keys that may verify a token with this key id and algorithm;
// without a key id, all that fit. The error says that no keys can be had.
func (s *keySet) find(ctx context.Context, kid, alg string) ([]jose.JSONWebKey, error) {
	found, usable := s.lookup(kid, alg)
	if len(found) > 0 {
		return found, nil
	}
	if err := s.refetch(ctx); err != nil && !usable {
		return nil, err
	}
	found, usable = s.lookup(kid, alg)
	if !usable {
		return nil, s.failure()
	}
	return found, nil
}

// lookup finds keys among those at hand and starts a refresh when they are old.
func (s *keySet) lookup(kid, alg string) (found []jose.JSONWebKey, usable bool) {
	s.mu.Lock()
	keys, age := s.keys, s.now().Sub(s.fetched)
	retry := s.now().Sub(s.tried) >= refetchEvery
	s.mu.Unlock()
	if keys == nil || age > keysStale {
		return nil, false
	}
	if age > keysFresh && retry {
		// Bounded by its own timeout; a failure is logged there.
		go func() { _ = s.refetch(context.Background()) }()
	}
	for i := range keys {
		if (kid == "" || keys[i].KeyID == kid) && fits(&keys[i], alg) {
			found = append(found, keys[i])
		}
	}
	return found, true
}

// refetch fetches the keys unless that was tried a moment ago; then the outcome
// of that attempt stands. It waits no longer than ctx.
func (s *keySet) refetch(ctx context.Context) error {
	s.mu.Lock()
	recent := !s.tried.IsZero() && s.now().Sub(s.tried) < refetchEvery
	err := s.lastErr
	s.mu.Unlock()
	if recent {
		return err
	}
	// The fetch belongs to everybody who waits for it, so it does not end with
	// the request that happened to start it.
	done := s.flight.DoChan("keys", func() (any, error) { return nil, s.refresh() })
	select {
	case r := <-done:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *keySet) refresh() error {
	ctx, cancel := context.WithTimeout(context.Background(), httpTimeout)
	defer cancel()
	keys, err := s.fetch(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried, s.lastErr = s.now(), err
	if err != nil {
		s.log.Warn("cannot fetch keys", "error", err, "keysAge", s.now().Sub(s.fetched).Round(time.Second).String())
		return err
	}
	if !sameKeys(s.keys, keys) {
		s.revision++
	}
	s.keys, s.fetched = keys, s.tried
	return nil
}

func (s *keySet) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastErr != nil {
		return s.lastErr
	}
	return errors.New("no keys")
}

// current is the revision of the keys; a cached verdict of another is void.
func (s *keySet) current() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
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

// decodeKeys reads a JWK set (RFC 7517 section 5). Keys that cannot be read or
// used are left out, as section 5 asks; a private or symmetric key never counts.
func decodeKeys(body []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil || set.Keys == nil {
		return nil, errors.New("it is not a JWK set")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("it has more than %d keys", maxKeys)
	}
	keys := make([]jose.JSONWebKey, 0, len(set.Keys))
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && key.IsPublic() && key.Valid() {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("it has no public key that can be used")
	}
	return keys, nil
}

// discoveryURL is where an issuer's OIDC metadata is (OpenID Connect Discovery
// 1.0 section 4: a trailing slash is removed first).
func discoveryURL(issuer string) string {
	return strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
}
