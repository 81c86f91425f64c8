package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// fresh makes tokens that were not seen before and are good by the clock.
func (s *signer) fresh(t testing.TB, p *issuer, c *clock) func() string {
	var n atomic.Int64
	return func() string {
		return s.sign(t, "", p.claims(map[string]any{"exp": c.now().Add(time.Hour).Unix(), "jti": n.Add(1)}))
	}
}

func TestKeySet_Rotation(t *testing.T) {
	p := newIssuer(t)
	old, next := newSigner(t, jose.ES256, "old"), newSigner(t, jose.ES256, "new")
	p.publish(old)
	v := newValidator(t, p.provider("main"))
	oldToken := old.sign(t, "", p.claims(nil))
	if _, err := v.Validate(t.Context(), oldToken); err != nil {
		t.Fatal(reasons(err))
	}
	p.publish(next)
	if _, err := v.Validate(t.Context(), next.sign(t, "", p.claims(nil))); err != nil {
		t.Fatal("after a rotation: ", reasons(err))
	}
	if n := p.fetches.Load(); n != 2 {
		t.Errorf("%d fetches, want 2", n)
	}
	if _, err := v.Validate(t.Context(), oldToken); err == nil {
		t.Error("a token of a withdrawn key is still accepted")
	}
}

func TestKeySet_ReplacedKeySameID(t *testing.T) {
	p := newIssuer(t)
	old, next := newSigner(t, jose.ES256, "k1"), newSigner(t, jose.ES256, "k1")
	p.publish(old)
	c := stopped()
	v := newValidatorWith(t, Options{Now: c.now}, p.provider("main"))
	if _, err := v.Validate(t.Context(), old.fresh(t, p, c)()); err != nil {
		t.Fatal(reasons(err))
	}
	p.publish(next)
	c.advance(badSignatureEvery)
	if _, err := v.Validate(t.Context(), next.fresh(t, p, c)()); err != nil {
		t.Error(reasons(err))
	}
}

// What strangers send causes requests at a bounded rate, however many they send.
func TestKeySet_FetchRate(t *testing.T) {
	p := newIssuer(t)
	s, forger := newSigner(t, jose.ES256, "k1"), newSigner(t, jose.ES256, "k1")
	p.publish(s)
	c := stopped()
	v := newValidatorWith(t, Options{Now: c.now}, p.provider("main"))
	good := s.fresh(t, p, c)
	if _, err := v.Validate(t.Context(), good()); err != nil {
		t.Fatal(reasons(err))
	}
	forge := forger.fresh(t, p, c)
	for _, c := range []struct {
		name  string
		token func(i int) string
		most  int32
	}{
		{"unknown key ids", func(i int) string {
			s := *forger
			s.kid = fmt.Sprintf("k-%d", i)
			return s.sign(t, "", p.claims(nil))
		}, unknownKidBurst},
		{"bad signatures", func(int) string { return forge() }, 0}, // keys were just fetched
	} {
		before, began := p.fetches.Load(), time.Now()
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for i := range 50 {
					if _, err := v.Validate(context.Background(), c.token(worker*50+i)); err == nil {
						t.Error("accepted")
					}
				}
			})
		}
		wg.Wait()
		// On a busy machine they take long, and one more is due each so often.
		most := c.most + int32(time.Since(began)/unknownKidEvery)
		if n := p.fetches.Load() - before; n > most {
			t.Errorf("400 tokens with %s caused %d fetches, want at most %d", c.name, n, most)
		}
	}
	// Later too: one each so often.
	before := p.fetches.Load()
	for range 5 {
		c.advance(badSignatureEvery)
		for range 20 {
			v.Validate(t.Context(), forge())
		}
	}
	if n := p.fetches.Load() - before; n > 5 {
		t.Errorf("5 minutes of bad signatures caused %d fetches", n)
	}
}

func TestKeySet_SameUnknownKeyID(t *testing.T) {
	p := newIssuer(t)
	p.publish(newSigner(t, jose.ES256, "k1"))
	c := stopped()
	v := newValidatorWith(t, Options{Now: c.now}, p.provider("main"))
	token := newSigner(t, jose.ES256, "gone").fresh(t, p, c)
	eventually(t, "the first fetch", func() bool { return p.fetches.Load() == 1 })
	for range 5 {
		v.Validate(t.Context(), token())
		c.advance(unknownKidAgain / 6)
	}
	if n := p.fetches.Load(); n != 2 {
		t.Errorf("%d fetches, want 2", n)
	}
}

// A flood of unknown key ids at a hanging provider delays no token with a known key, of
// that provider or another.
func TestKeySet_UnknownKeyIDFlood(t *testing.T) {
	p, q := newIssuer(t), newIssuer(t)
	s, forger := newSigner(t, jose.ES256, "k1"), newSigner(t, jose.ES256, "x")
	p.publish(s)
	q.publish(s)
	c := stopped()
	v := newValidator(t, p.provider("p"), q.provider("q"))
	goodP, goodQ := s.fresh(t, p, c), s.fresh(t, q, c)
	for _, token := range []string{goodP(), goodQ()} {
		if _, err := v.Validate(t.Context(), token); err != nil {
			t.Fatal(reasons(err))
		}
	}
	hang := make(chan struct{})
	p.serve(jwksPath, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	defer close(hang)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var flood sync.WaitGroup
	defer flood.Wait()
	defer cancel()
	for i := range 50 {
		stranger := *forger
		stranger.kid = fmt.Sprint(i)
		token := stranger.sign(t, "", p.claims(nil))
		flood.Go(func() { v.Validate(ctx, token) })
	}
	eventually(t, "the flood waits", func() bool { return p.fetches.Load() == 2 })
	for range 20 {
		for _, token := range []string{goodP(), goodQ()} {
			start := time.Now()
			if _, err := v.Validate(t.Context(), token); err != nil {
				t.Fatal(reasons(err))
			}
			if took := time.Since(start); took >= keysWait {
				t.Errorf("took %s", took)
			}
		}
	}
}

func TestKeySet_Outage(t *testing.T) {
	p := newIssuer(t)
	s := newSigner(t, jose.ES256, "k1")
	p.publish(s)
	c := stopped()
	var log testLog
	v := newValidatorWith(t, Options{Now: c.now, Log: log.logger()}, p.provider("main"))
	token := s.fresh(t, p, c)
	if _, err := v.Validate(t.Context(), token()); err != nil {
		t.Fatal(reasons(err))
	}
	p.down.Store(true)
	for _, age := range []time.Duration{keysFresh, time.Hour, keysStale - time.Hour - keysFresh - time.Minute} {
		c.advance(age)
		if _, err := v.Validate(t.Context(), token()); err != nil {
			t.Error("an outage refused a known key: ", reasons(err))
		}
	}
	eventually(t, "the log names the failing URL", func() bool { return strings.Contains(log.String(), "GET "+p.URL) })
	c.advance(2 * time.Minute)
	_, err := v.Validate(t.Context(), token())
	if err == nil || !strings.Contains(reasons(err), p.URL) {
		t.Errorf("keys of more than %s ago: %s; want a refusal that names the URL", keysStale, reasons(err))
	}
	p.down.Store(false)
	c.advance(keysRetry)
	if _, err := v.Validate(t.Context(), token()); err != nil {
		t.Error("after the outage: ", reasons(err))
	}
}

// Keys are there before the first request, and a provider that comes up late is
// found without one.
func TestKeySet_BackgroundFetch(t *testing.T) {
	p := newIssuer(t)
	p.publish(newSigner(t, jose.ES256, "k1"))
	p.down.Store(true)
	var failed, fetched atomic.Int32
	v := newValidatorWith(t, Options{ObserveKeys: func(provider, outcome string) {
		switch outcome {
		case "failed":
			failed.Add(1)
		case "fetched":
			fetched.Add(1)
		}
	}}, p.provider("main"))
	eventually(t, "a failure", func() bool { return failed.Load() > 0 })
	p.down.Store(false)
	eventually(t, "the provider is found", func() bool { return fetched.Load() == 1 })
	if _, usable := v.providers[0].keys.at(time.Now()); !usable {
		t.Error("no keys are held")
	}
}

func TestValidate_DeadProvider(t *testing.T) {
	hang := make(chan struct{})
	dead := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer dead.Close()
	defer close(hang)
	p := newIssuer(t)
	s := newSigner(t, jose.ES256, "k1")
	p.publish(s)
	p.activate("opaque", p.claims(map[string]any{"active": true}))
	p.activate("opaque-too", p.claims(map[string]any{"active": true}))
	// One that never answers, one that refuses connections, and one by itself.
	v := newValidator(t,
		Provider{Name: "hangs", IssuerURL: dead.URL, Audience: "registry", IntrospectionURL: dead.URL + "/introspect"},
		Provider{Name: "refuses", IssuerURL: "http://127.0.0.1:1", Audience: "registry", IntrospectionURL: "http://127.0.0.1:1/introspect"},
		p.introspecting("main"))
	for _, c := range []struct {
		name, token string
	}{
		{"a JWT", s.sign(t, "", p.claims(nil))},
		{"the first opaque token", "opaque"},
		{"the next opaque token", "opaque-too"},
	} {
		start := time.Now()
		id, err := v.Validate(t.Context(), c.token)
		if err != nil || id.Provider != "main" {
			t.Fatalf("%s: %+v %s", c.name, id, reasons(err))
		}
		// The shortest of the bounds on a provider that does not answer.
		if took := time.Since(start); took >= keysWait {
			t.Errorf("%s took %s beside a dead provider", c.name, took)
		}
	}
}

// The provider of a token itself may be slow; the caller that gives up is
// answered, and the one that waits gets the provider's answer.
func TestValidate_SlowProvider(t *testing.T) {
	p := newIssuer(t)
	s := newSigner(t, jose.ES256, "k1")
	p.publish(s)
	release := make(chan struct{})
	keys := p.routes[jwksPath]
	p.serve(jwksPath, func(w http.ResponseWriter, r *http.Request) {
		<-release
		keys(w, r)
	})
	v := newValidator(t, p.provider("main"))
	token := s.sign(t, "", p.claims(nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Validate(ctx, token); err == nil {
		t.Fatal("accepted without keys")
	}
	done := make(chan error)
	go func() {
		_, err := v.Validate(t.Context(), token)
		done <- err
	}()
	close(release)
	if err := <-done; err != nil {
		t.Error(reasons(err))
	}
	if n := p.fetches.Load(); n != 1 {
		t.Errorf("%d fetches", n)
	}
}

// A key that appears while its provider is out of reach is not a bad token.
func TestKeySet_UnknownKeyDuringOutage(t *testing.T) {
	p := newIssuer(t)
	s, next := newSigner(t, jose.ES256, "k1"), newSigner(t, jose.ES256, "k2")
	p.publish(s)
	var outcomes sync.Map
	v := newValidatorWith(t, Options{Observe: func(provider, outcome string) { outcomes.Store(provider+" "+outcome, true) }}, p.provider("main"))
	if _, err := v.Validate(t.Context(), s.sign(t, "", p.claims(nil))); err != nil {
		t.Fatal(reasons(err))
	}
	p.publish(s, next)
	p.down.Store(true)
	_, err := v.Validate(t.Context(), next.sign(t, "", p.claims(nil)))
	var r *Rejection
	if !errors.As(err, &r) || !r.Unavailable || !strings.Contains(reasons(err), p.URL) {
		t.Errorf("%s", reasons(err))
	}
	for _, want := range []string{"main accepted", "main unavailable"} {
		if _, ok := outcomes.Load(want); !ok {
			t.Errorf("%q was not observed", want)
		}
	}
	// When the provider returns, the key is not waited for any longer.
	p.down.Store(false)
	if _, err := v.Validate(t.Context(), next.sign(t, "", p.claims(nil))); err != nil {
		t.Errorf("after the outage: %s", reasons(err))
	}
}

// The number of tokens that wait for a hanging provider is bounded; the others are
// rejected at once.
func TestIntrospection_HangingProvider(t *testing.T) {
	p := newIssuer(t)
	hang := make(chan struct{})
	p.serve(introspectPath, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	defer close(hang)
	v := newValidator(t, p.introspecting("main"))
	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	defer flood.Wait()
	defer cancel()
	for i := range maxAsking + maxWaiting {
		flood.Go(func() { v.Validate(ctx, fmt.Sprintf("opaque-%d", i)) })
	}
	eventually(t, "all places are taken", func() bool { return len(v.providers[0].waiting) == maxAsking+maxWaiting })
	start := time.Now()
	_, err := v.Validate(t.Context(), "one-more")
	if err == nil || !strings.Contains(reasons(err), "too many tokens") || time.Since(start) >= keysWait {
		t.Errorf("after %s: %s", time.Since(start), reasons(err))
	}
	if n := p.asked.Load(); n > maxAsking {
		t.Errorf("%d requests at once", n)
	}
}

func TestClose(t *testing.T) {
	hang := make(chan struct{})
	dead := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer dead.Close()
	defer close(hang)
	v, err := NewValidator([]Provider{{Name: "dead", IssuerURL: dead.URL, Audience: "registry", IntrospectionURL: dead.URL}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := v.Validate(context.Background(), "opaque")
		done <- err
	}()
	eventually(t, "the token is being asked about", func() bool { return len(v.providers[0].asking) == 1 })
	start := time.Now()
	v.Close()
	if err := <-done; err == nil {
		t.Error("accepted")
	}
	if _, err := v.Validate(context.Background(), "another"); err == nil || !strings.Contains(reasons(err), errClosed.Error()) {
		t.Errorf("after Close: %s", reasons(err))
	}
	if took := time.Since(start); took >= requestTimeout {
		t.Errorf("took %s", took)
	}
}

func TestKeySet_UnknownKeyIDs(t *testing.T) {
	s := newKeySet()
	now := time.Now()
	take := func(n int) (taken int) {
		for range n {
			if s.unknown.AllowN(now, 1) {
				taken++
			}
		}
		return taken
	}
	if n := take(10); n != unknownKidBurst {
		t.Errorf("%d at once", n)
	}
	now = now.Add(unknownKidEvery - time.Millisecond)
	if take(1) != 0 {
		t.Error("too early")
	}
	now = now.Add(2 * time.Millisecond)
	if n := take(10); n != 1 {
		t.Errorf("%d after a while", n)
	}
	now = now.Add(time.Hour)
	if n := take(10); n != unknownKidBurst {
		t.Errorf("%d after an hour", n)
	}
}
