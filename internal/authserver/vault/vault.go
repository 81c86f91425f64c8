// Package vault keeps the tokens that upstream providers issued for persons, and refreshes
// them.
//
// A record belongs to one [Binding]: session, client, provider and person. It is stored under
// a hash of them and sealed for them, so that neither a mistake of a caller nor a changed
// store returns another person's token.
//
// A refresh happens once for all processes that share a store: a process acquires a lease,
// reads the record again, sends the request, and saves the answer before it returns a token.
// Providers rotate refresh tokens, so an answer that is not saved ends the login. Refreshes
// therefore run apart from the requests that caused them. Each record has the id of its
// login and a number that counts refreshes; a record is replaced only by its successors.
//
// While the store or a provider cannot be reached, a token that has not expired is still
// returned.
package vault

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
	"github.com/toolhaven/toolhaven/internal/authserver/upstream"
	"github.com/toolhaven/toolhaven/internal/taskgroup"
)

// The errors of a Vault. Another error of Token and Renew is that of the caller's context.
var (
	// ErrLogin: there is no token, or it expired and cannot be refreshed. The person has to
	// log in again.
	ErrLogin = errors.New("a new login at the provider is needed")
	// ErrUnavailable: the store or the provider cannot be reached now.
	ErrUnavailable = errors.New("the provider's token is not available now")
)

// Binding is whom tokens belong to. All four are checked on every read.
type Binding struct {
	Session, Client, Provider, Subject string
}

// Refresher sends a refresh request to a provider. Its errors are those of
// [upstream.Provider].
type Refresher interface {
	Refresh(ctx context.Context, t upstream.Tokens) (upstream.Tokens, error)
}

// Config is what a Vault works with.
type Config struct {
	Store storage.Store
	// Keys returns keys of 32 bytes. The first one seals, all open. It is called for each
	// operation, so that replaced keys are used without a restart.
	Keys func() ([][]byte, error)
	// Refresher returns that of a provider, or nil if there is no such provider: its tokens
	// are used until they expire.
	Refresher func(provider string) Refresher
	// Log gets failed refreshes. Nil discards them.
	Log *slog.Logger
}

const (
	// A caller with a token that is still valid waits this long for its refresh, one without
	// waits longer.
	waitValid   = 3 * time.Second
	waitExpired = 30 * time.Second
	// readTimeout bounds a read of the store when the token is known otherwise. After a read
	// that failed, known tokens are returned without another one for awayTime.
	readTimeout, awayTime = time.Second, time.Second
	// renewedTime is how long a token that Renew fetched is not replaced by another Renew: a
	// server that rejects it rejects every token.
	renewedTime = 30 * time.Second
	maxLifetime = 10 * 365 * 24 * time.Hour
)

// Vault may be used concurrently.
type Vault struct {
	store     storage.Store
	keys      func() ([][]byte, error)
	refresher func(provider string) Refresher
	log       *slog.Logger
	recent    *recent
	tasks     taskgroup.Group
	away      atomic.Int64 // until when known tokens are returned, in Unix nanoseconds

	mu      sync.Mutex
	flights map[flightKey]*flight
}

// New returns a Vault.
func New(c Config) *Vault {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Vault{store: c.Store, keys: c.Keys, refresher: c.Refresher, log: c.Log, recent: newRecent(), flights: map[flightKey]*flight{}}
}

// Close waits until the refreshes in progress have been saved, or ctx ends. Later ones fail.
func (v *Vault) Close(ctx context.Context) {
	v.tasks.Stop()
	v.tasks.Wait(ctx)
}

// Save stores the tokens of a login in place of any others of the binding. They are removed
// after lifetime, however often they are refreshed; Extend changes it. It fails if the binding or the tokens are
// incomplete or too large, and with ErrUnavailable.
func (v *Vault) Save(ctx context.Context, b Binding, t upstream.Tokens, lifetime time.Duration) error {
	if err := b.check(); err != nil {
		return err
	}
	if err := checkTokens(t); err != nil {
		return err
	}
	if lifetime <= 0 || lifetime > maxLifetime {
		return errors.New("the lifetime of tokens must be positive, and at most 10 years")
	}
	key := b.key()
	r := newLogin(key, t, time.Now(), lifetime)
	raw, err := v.seal(r)
	if err != nil {
		return err
	}
	if err := v.store.Put(ctx, key, raw, lifetime); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	r.raw = raw
	v.recent.put(r)
	return nil
}

// Token returns the access token and the ID token, which is "" if there is none. A token that
// expires shortly is refreshed; while that fails, it is returned until it expires.
func (v *Vault) Token(ctx context.Context, b Binding) (accessToken, idToken string, err error) {
	r, fresh, err := v.read(ctx, b)
	if err != nil {
		return "", "", err
	}
	if fresh && r.due(time.Now()) && v.refreshable(b, r) {
		next, err := v.refresh(ctx, b, r, "")
		switch {
		case err == nil:
			r = next
		case !r.valid(time.Now()):
			return "", "", err
		}
	}
	if !r.valid(time.Now()) {
		return "", "", ErrLogin
	}
	return r.Tokens.AccessToken, r.Tokens.IDToken, nil
}

// Renew returns another access token than one that a server rejected. It returns the rejected
// one if a refresh would not help, because the token was refreshed for this reason just now.
// There is at most one refresh for a rejected token.
func (v *Vault) Renew(ctx context.Context, b Binding, rejected string) (accessToken string, err error) {
	r, fresh, err := v.read(ctx, b)
	if err != nil {
		return "", err
	}
	switch {
	case r.Tokens.AccessToken != rejected:
		accessToken, _, err := v.Token(ctx, b) // it was replaced meanwhile
		return accessToken, err
	case !fresh:
		return "", fmt.Errorf("%w: the store cannot be reached", ErrUnavailable)
	case r.futile(time.Now()):
		return rejected, nil
	case !v.refreshable(b, r):
		return "", ErrLogin
	}
	next, err := v.refresh(ctx, b, r, rejected)
	switch {
	case err != nil:
		return "", err
	case next.Refused || !next.valid(time.Now()):
		return "", ErrLogin
	}
	return next.Tokens.AccessToken, nil
}

// Extend keeps the tokens of a binding for lifetime from now, instead of that of Save. The
// error is ErrLogin without tokens, or ErrUnavailable.
func (v *Vault) Extend(ctx context.Context, b Binding, lifetime time.Duration) error {
	if err := b.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrLogin, err)
	}
	for range 5 {
		r, err := v.fetch(ctx, b.key())
		if err != nil {
			return err
		}
		next := *r
		next.Ends, next.raw = time.Now().Add(lifetime), nil
		if next.raw, err = v.seal(&next); err != nil {
			return err
		}
		err = v.store.Swap(ctx, b.key(), r.raw, next.raw, lifetime)
		if errors.Is(err, storage.ErrChanged) {
			continue // a refresh was saved
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		v.recent.put(&next)
		return nil
	}
	return ErrUnavailable
}

// Delete removes the tokens of a binding. It does not revoke them at the provider. A refresh
// in progress does not store them again.
func (v *Vault) Delete(ctx context.Context, b Binding) error {
	key := b.key()
	v.recent.remove(key)
	if err := v.store.Delete(ctx, key); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// refreshable reports whether there is a refresh token, and a provider to send it to.
func (v *Vault) refreshable(b Binding, r *record) bool {
	return r.Tokens.RefreshToken != "" && !r.Refused && v.refresher(b.Provider) != nil
}

// read returns the record of a binding. If the store cannot be reached it is the last one
// that this process has seen, and not fresh.
func (v *Vault) read(ctx context.Context, b Binding) (r *record, fresh bool, err error) {
	if err := b.check(); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrLogin, err)
	}
	key := b.key()
	known, now := v.recent.get(key), time.Now()
	if known != nil && !known.valid(now) {
		known = nil
	}
	if known != nil && now.UnixNano() < v.away.Load() {
		return known, false, nil
	}
	bounded := ctx
	if known != nil {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, readTimeout)
		defer cancel()
	}
	r, err = v.fetch(bounded, key)
	switch {
	case err == nil:
		return r, true, nil
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case errors.Is(err, ErrUnavailable) && known != nil:
		v.away.Store(time.Now().Add(awayTime).UnixNano())
		return known, false, nil
	}
	return nil, false, err
}

// fetch reads a record from the store. Without one that is valid for the key it fails with
// ErrLogin.
func (v *Vault) fetch(ctx context.Context, key string) (*record, error) {
	raw, err := v.store.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		v.recent.remove(key)
		return nil, ErrLogin
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	r, err := v.open(key, raw)
	if err != nil {
		return nil, err
	}
	if !time.Now().Before(r.Ends) {
		v.recent.remove(key)
		return nil, ErrLogin
	}
	v.recent.put(r)
	return r, nil
}
