package vault

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
	"github.com/toolhaven/toolhaven/internal/authserver/storage/memory"
	"github.com/toolhaven/toolhaven/internal/authserver/upstream"
	"github.com/toolhaven/toolhaven/internal/seal"
)

// provider issues tokens for an hour and rotates refresh tokens. One that was used before is
// refused.
type provider struct {
	mu       sync.Mutex
	requests int
	valid    int // the refresh token that is accepted
	life     time.Duration
	fail     error
	// change, if not nil, alters an answer.
	change func(*upstream.Tokens)
	// during, if not nil, runs while a request is in progress.
	during func(ctx context.Context, request int)
	// after, if not nil, runs before an answer is returned.
	after func(request int)
}

// secret is in every token.
const secret = "tok-"

// issue returns the tokens of a new login.
func (p *provider) issue() upstream.Tokens {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.valid++
	return p.tokens()
}

func (p *provider) tokens() upstream.Tokens {
	life := p.life
	if life == 0 {
		life = time.Hour
	}
	return upstream.Tokens{
		AccessToken: fmt.Sprint(secret, "access-", p.valid), RefreshToken: fmt.Sprint(secret, "refresh-", p.valid),
		IDToken: fmt.Sprint(secret, "id-", p.valid), Scopes: []string{"openid"}, Expiry: time.Now().Add(life),
	}
}

// Refresh implements [Refresher].
func (p *provider) Refresh(ctx context.Context, t upstream.Tokens) (upstream.Tokens, error) {
	p.mu.Lock()
	p.requests++
	request, during, after := p.requests, p.during, p.after
	p.mu.Unlock()
	if during != nil {
		during(ctx, request)
	}
	got, err := p.answer(ctx, t)
	if after != nil {
		after(request)
	}
	return got, err
}

func (p *provider) answer(ctx context.Context, t upstream.Tokens) (upstream.Tokens, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return upstream.Tokens{}, fmt.Errorf("%w: %w", upstream.ErrUnavailable, ctx.Err())
	case p.fail != nil:
		return upstream.Tokens{}, p.fail
	case t.RefreshToken != fmt.Sprint(secret, "refresh-", p.valid):
		return upstream.Tokens{}, upstream.ErrExpired
	}
	p.valid++
	got := p.tokens()
	if p.change != nil {
		p.change(&got)
	}
	return got, nil
}

func (p *provider) set(f func(p *provider)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// store is a store in memory that can fail.
type store struct {
	storage.Store
	mu    sync.Mutex
	fault func(operation string) (before, after error)
}

func newStore() *store { return &store{Store: memory.New(memory.Options{})} }

func (s *store) fail(f func(operation string) (before, after error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// down makes every operation fail.
func (s *store) down() {
	s.fail(func(string) (error, error) { return errDown, nil })
}

var errDown = fmt.Errorf("reach Redis: connection refused")

func (s *store) check(operation string) (before, after error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil {
		return nil, nil
	}
	return s.fault(operation)
}

func (s *store) Get(ctx context.Context, key string) ([]byte, error) {
	if err, _ := s.check("Get"); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, key)
}

func (s *store) Put(ctx context.Context, key string, value []byte, lifetime time.Duration) error {
	if err, _ := s.check("Put"); err != nil {
		return err
	}
	return s.Store.Put(ctx, key, value, lifetime)
}

func (s *store) Swap(ctx context.Context, key string, old, value []byte, lifetime time.Duration) error {
	before, after := s.check("Swap")
	if before != nil {
		return before
	}
	if err := s.Store.Swap(ctx, key, old, value, lifetime); err != nil {
		return err
	}
	return after // the answer is lost
}

func (s *store) Lease(ctx context.Context, key string, lifetime time.Duration) (func(), error) {
	before, after := s.check("Lease")
	if before != nil {
		return nil, before
	}
	if after != nil { // as if another's lease had just ended
		return func() {}, nil
	}
	return s.Store.Lease(ctx, key, lifetime)
}

func (s *store) Delete(ctx context.Context, key string) error {
	if err, _ := s.check("Delete"); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

// world is a provider, a store, and processes that share them.
type world struct {
	provider *provider
	store    *store
	keys     [][]byte
	log      *safeBuffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{provider: &provider{}, store: newStore(), keys: [][]byte{seal.NewKey()}, log: &safeBuffer{}}
	t.Cleanup(func() {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("a token is in the log:\n%s", w.log.String())
		}
	})
	return w
}

// process returns another Vault.
func (w *world) process() *Vault {
	return New(Config{
		Store: w.store,
		Keys:  func() ([][]byte, error) { return w.keys, nil },
		Refresher: func(name string) Refresher {
			if name != "idp" {
				return nil
			}
			return w.provider
		},
		Log: slog.New(slog.NewTextHandler(w.log, nil)),
	})
}

// login saves new tokens for alice.
func (w *world) login(t *testing.T, v *Vault) {
	t.Helper()
	if err := v.Save(t.Context(), alice, w.provider.issue(), 24*time.Hour); err != nil {
		t.Fatal(err)
	}
}

var alice = Binding{Session: "session", Client: "client", Provider: "idp", Subject: "alice"}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
