package vault

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/upstream"
	"github.com/toolhaven/toolhaven/internal/seal"
)

// token checks the access token of alice.
func token(t *testing.T, v *Vault, want string) {
	t.Helper()
	got, _, err := v.Token(t.Context(), alice)
	if err != nil || got != secret+want {
		t.Errorf("Token: got %q, %v; want %q", got, err, secret+want)
	}
}

// noToken checks that there is none for the reason.
func noToken(t *testing.T, v *Vault, want error) {
	t.Helper()
	got, id, err := v.Token(t.Context(), alice)
	if !errors.Is(err, want) || got != "" || id != "" {
		t.Errorf("Token: got %q, %q, %v; want %v", got, id, err, want)
	} else if strings.Contains(err.Error(), secret) {
		t.Errorf("a token is in the error: %v", err)
	}
}

func renew(t *testing.T, v *Vault, rejected, want string) {
	t.Helper()
	got, err := v.Renew(t.Context(), alice, secret+rejected)
	if err != nil || got != secret+want {
		t.Errorf("Renew: got %q, %v; want %q", got, err, secret+want)
	}
}

func requests(t *testing.T, w *world, want int) {
	t.Helper()
	if got := w.provider.count(); got != want {
		t.Errorf("the provider received %d requests, not %d", got, want)
	}
}

func TestToken_Binding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v := w.process()
		w.login(t, v)
		token(t, v, "access-1")
		token(t, w.process(), "access-1")
		if _, id, err := v.Token(t.Context(), alice); err != nil || id != secret+"id-1" {
			t.Errorf("the ID token is %q, %v", id, err)
		}
		for name, b := range map[string]Binding{
			"another session":    {"other", alice.Client, alice.Provider, alice.Subject},
			"another client":     {alice.Session, "other", alice.Provider, alice.Subject},
			"another provider":   {alice.Session, alice.Client, "other", alice.Subject},
			"another person":     {alice.Session, alice.Client, alice.Provider, "bob"},
			"no person":          {alice.Session, alice.Client, alice.Provider, ""},
			"parts moved":        {alice.Session + "client", "", alice.Provider, alice.Subject},
			"parts exchanged":    {alice.Client, alice.Session, alice.Provider, alice.Subject},
			"a letter moved":     {"sessio", "nclient", alice.Provider, alice.Subject},
			"a part that is big": {strings.Repeat("s", maxPart+1), alice.Client, alice.Provider, alice.Subject},
		} {
			if got, _, err := v.Token(t.Context(), b); !errors.Is(err, ErrLogin) {
				t.Errorf("%s: Token: got %q, %v", name, got, err)
			}
			if got, err := v.Renew(t.Context(), b, secret+"access-1"); !errors.Is(err, ErrLogin) {
				t.Errorf("%s: Renew: got %q, %v", name, got, err)
			}
		}
		requests(t, w, 0)
		token(t, v, "access-1")
	})
}

func TestSave_Faults(t *testing.T) {
	w := newWorld(t)
	v := w.process()
	good := w.provider.issue()
	for name, row := range map[string]struct {
		b        Binding
		change   func(*upstream.Tokens)
		lifetime time.Duration
	}{
		"no access token":        {alice, func(t *upstream.Tokens) { t.AccessToken = "" }, time.Hour},
		"a large access token":   {alice, func(t *upstream.Tokens) { t.AccessToken = secret + strings.Repeat("a", maxTokens) }, time.Hour},
		"many scopes":            {alice, func(t *upstream.Tokens) { t.Scopes = make([]string, maxScopes+1) }, time.Hour},
		"a token that is bytes":  {alice, func(t *upstream.Tokens) { t.IDToken = secret + "\xff" }, time.Hour},
		"the year 10000":         {alice, func(t *upstream.Tokens) { t.Expiry = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, time.Hour},
		"no session":             {Binding{"", "c", "idp", "s"}, func(*upstream.Tokens) {}, time.Hour},
		"no lifetime":            {alice, func(*upstream.Tokens) {}, 0},
		"an unlimited lifetime":  {alice, func(*upstream.Tokens) {}, 1<<63 - 1},
		"a lifetime in the past": {alice, func(*upstream.Tokens) {}, -time.Hour},
	} {
		tokens := good
		row.change(&tokens)
		if err := v.Save(t.Context(), row.b, tokens, row.lifetime); err == nil {
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: a token is in the error", name)
		}
	}
	noToken(t, v, ErrLogin)
}

func TestDelete(t *testing.T) {
	w := newWorld(t)
	v, other := w.process(), w.process()
	w.login(t, v)
	token(t, other, "access-1")
	if err := v.Delete(t.Context(), Binding{alice.Session, alice.Client, alice.Provider, "bob"}); err != nil {
		t.Fatal(err)
	}
	token(t, v, "access-1")
	if err := v.Delete(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	noToken(t, v, ErrLogin)
	noToken(t, other, ErrLogin)
	if _, err := v.Renew(t.Context(), alice, secret+"access-1"); !errors.Is(err, ErrLogin) {
		t.Errorf("Renew: %v", err)
	}
}

// A record lives as long as its login, however often it is refreshed.
func TestSave_Lifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v := w.process()
		w.login(t, v) // for 24 hours
		for range 47 {
			time.Sleep(30 * time.Minute)
			if _, _, err := v.Token(t.Context(), alice); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30*time.Minute - time.Nanosecond)
		if _, _, err := v.Token(t.Context(), alice); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Nanosecond)
		noToken(t, v, ErrLogin)
	})
}

func TestExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v := w.process()
		if err := v.Extend(t.Context(), alice, time.Hour); !errors.Is(err, ErrLogin) {
			t.Errorf("without tokens: %v", err)
		}
		w.login(t, v) // for 24 hours
		time.Sleep(23 * time.Hour)
		if err := v.Extend(t.Context(), alice, 24*time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(23 * time.Hour)
		if _, _, err := v.Token(t.Context(), alice); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		noToken(t, v, ErrLogin)
	})
}

// The store has neither tokens nor names, and a value that was moved or made elsewhere is
// refused.
func TestToken_Sealed(t *testing.T) {
	w := newWorld(t)
	v := w.process()
	w.login(t, v)
	raw, err := w.store.Get(t.Context(), alice.key())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{secret, "alice", "idp", "session"} {
		if strings.Contains(string(raw), text) || strings.Contains(alice.key(), text) {
			t.Errorf("%q is stored in the clear", text)
		}
	}
	bob := Binding{alice.Session, alice.Client, alice.Provider, "bob"}
	put := func(raw []byte) {
		t.Helper()
		if err := w.store.Put(t.Context(), bob.key(), raw, time.Hour); err != nil {
			t.Fatal(err)
		}
		if got, _, err := w.process().Token(t.Context(), bob); !errors.Is(err, ErrLogin) {
			t.Errorf("got %q, %v", got, err)
		}
	}
	put(raw) // alice's record under bob's key
	sealer, err := seal.New(w.keys[0])
	if err != nil {
		t.Fatal(err)
	}
	plain, err := sealer.Open(alice.key(), string(raw))
	if err != nil {
		t.Fatal(err)
	}
	put([]byte(sealer.Close(bob.key(), plain))) // sealed for bob, and yet alice's
	put([]byte(sealer.Close(bob.key(), []byte("{}"))))
	put(plain)
	put(nil)
	put(make([]byte, maxRecord+1))
	token(t, v, "access-1")
}

func TestKeys_Rotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v := w.process()
		w.login(t, v)
		first, second := w.keys[0], seal.NewKey()
		w.keys = [][]byte{second, first}
		token(t, v, "access-1")
		renew(t, v, "access-1", "access-2") // sealed with the second key now
		w.keys = [][]byte{second}
		token(t, w.process(), "access-2")
		w.keys = [][]byte{first}
		noToken(t, w.process(), ErrLogin)
		for _, bad := range [][][]byte{nil, {}, {second, []byte("short")}, make([][]byte, maxKeys+1)} {
			w.keys = bad
			noToken(t, w.process(), ErrUnavailable)
			if err := v.Save(t.Context(), alice, w.provider.issue(), time.Hour); !errors.Is(err, ErrUnavailable) {
				t.Errorf("Save: %v", err)
			}
		}
	})
}

func TestStore_Outage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v, other := w.process(), w.process()
		w.login(t, v)
		token(t, v, "access-1")
		w.store.down()
		token(t, v, "access-1") // a token that holds is served
		noToken(t, other, ErrUnavailable)
		if err := v.Save(t.Context(), alice, w.provider.issue(), time.Hour); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Save: %v", err)
		}
		if _, err := v.Renew(t.Context(), alice, secret+"access-1"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Renew: %v", err)
		}
		time.Sleep(time.Hour - time.Nanosecond)
		token(t, v, "access-1")
		time.Sleep(time.Nanosecond)
		noToken(t, v, ErrUnavailable)
		requests(t, w, 0)

		w.store.fail(nil)
		w.login(t, v)
		time.Sleep(awayTime)
		token(t, v, "access-3")
		// The store forgot everything: the tokens of before are not served any more.
		w.store.Store = newStore().Store
		noToken(t, v, ErrLogin)
		w.store.down()
		noToken(t, v, ErrUnavailable)
	})
}

// A store that does not answer delays a known token by a bounded time.
func TestStore_Hangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v := w.process()
		w.login(t, v)
		hanging := &hangingStore{store: w.store}
		v.store = hanging
		for _, want := range []time.Duration{readTimeout, 0, 0} {
			began := time.Now()
			token(t, v, "access-1")
			if took := time.Since(began); took != want {
				t.Errorf("it took %s, not %s", took, want)
			}
		}
		v.store = w.store
		if err := w.store.Delete(t.Context(), alice.key()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(awayTime) // then the store is read again
		noToken(t, v, ErrLogin)
		w.login(t, v)
		v.store = hanging
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := v.Token(ctx, alice); !errors.Is(err, context.Canceled) {
			t.Errorf("a canceled call: %v", err)
		}
	})
}

type hangingStore struct{ *store }

func (*hangingStore) Get(ctx context.Context, _ string) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestRecent_Bounds(t *testing.T) {
	c := newRecent()
	r := func(key string, size int) *record { return &record{Key: key, raw: make([]byte, size)} }
	for i := range maxRecent + 100 {
		c.put(r(string(rune('a'+i%26))+strings.Repeat("x", i/26), 10))
	}
	if len(c.records) > maxRecent || c.bytes != 10*len(c.records) {
		t.Errorf("%d records of %d bytes", len(c.records), c.bytes)
	}
	for _, key := range []string{"a", "b", "c"} {
		c.put(r(key, maxRecentBytes/2))
	}
	if c.bytes > maxRecentBytes || c.get("c") == nil {
		t.Errorf("%d bytes", c.bytes)
	}
	c.put(r("c", 1))
	c.remove("c")
	if c.get("c") != nil {
		t.Error("a removed record is kept")
	}
}

func FuzzDecode(f *testing.F) {
	w := &world{provider: &provider{}, keys: [][]byte{seal.NewKey()}}
	v := w.process()
	key := alice.key()
	raw, err := v.seal(newLogin(key, w.provider.issue(), time.Unix(1e9, 0), time.Hour))
	if err != nil {
		f.Fatal(err)
	}
	sealer, err := seal.New(w.keys[0])
	if err != nil {
		f.Fatal(err)
	}
	plain, err := sealer.Open(key, string(raw))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plain)
	f.Add([]byte(`{"version":1,"key":"` + key + `","login":"l","tokens":{"accessToken":"tok-a","scopes":[""]},"issued":"2026-01-01T00:00:00Z","ends":"2026-01-02T00:00:00Z"}`))
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, plain []byte) {
		if _, err := v.open(key, plain); err == nil {
			t.Fatal("what was not sealed is opened")
		}
		r, err := v.open(key, []byte(sealer.Close(key, plain)))
		if err != nil {
			if !errors.Is(err, ErrLogin) {
				t.Fatalf("got %v", err)
			}
			return
		}
		if r.Key != key || r.Tokens.AccessToken == "" || r.Login == "" {
			t.Fatalf("an incomplete record: %+v", r)
		}
		r.due(time.Now())
		if _, err := v.seal(r.next(r.Tokens, time.Now(), "rejected")); err != nil {
			t.Fatalf("it cannot be stored again: %v", err)
		}
	})
}
