package oauthclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// asProcess makes this test program a process that reads a token.
const asProcess = "OAUTHCLIENT_TEST_STORE"

func TestMain(m *testing.M) {
	dir := os.Getenv(asProcess)
	if dir == "" {
		os.Exit(m.Run())
	}
	if len(os.Args) == 4 {
		n, err := strconv.Atoi(os.Args[3])
		if err == nil {
			err = callers(dir, os.Args[1], os.Args[2], n)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	source, err := openIn(dir, os.Getenv).Source(os.Args[1])
	if err == nil {
		var token string
		if token, err = source.Token(context.Background()); err == nil {
			fmt.Println(token)
			os.Exit(0)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func mustSource(t *testing.T, s *Store, target string) *Source {
	t.Helper()
	source, err := s.Source(target)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// later is a store for which time has passed.
func later(s *Store, d time.Duration) *Store {
	moved := *s
	moved.now = func() time.Time { return time.Now().Add(d) }
	return &moved
}

func TestToken_RenewedAtExpiry(t *testing.T) {
	f, s := newFake(t), testStore(t)
	f.mustSignIn(s)
	first, err := mustSource(t, s, f.url).Token(t.Context())
	if err != nil || len(f.forms) != 1 {
		t.Fatalf("%v, %d token requests", err, len(f.forms))
	}
	second, err := mustSource(t, later(s, 295*time.Second), f.url).Token(t.Context())
	if err != nil || second == first || !f.access[second] || len(f.forms) != 2 {
		t.Fatalf("%v, %d token requests", err, len(f.forms))
	}
	if got := f.forms[1]; got.Get("resource") != f.url || got.Get("client_id") != "client-1" { // RFC 8707 section 2.2
		t.Errorf("%v", got)
	}
	// The rotated token is the one that is used next.
	if third, err := mustSource(t, later(s, 900*time.Second), f.url).Token(t.Context()); err != nil || third == second || f.forms[2].Get("refresh_token") == f.forms[1].Get("refresh_token") {
		t.Errorf("%v", err)
	}
}

// Lifetimes are relative (RFC 6749 section 5.1), so a clock that is off by an hour does not
// matter, and one that is put right later costs one renewal at most.
func TestToken_ClockOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after time.Duration // how far the clock is off at the sign-in, and later
		renewals      int           // before the resource rejects the token
	}{
		"slow":           {-time.Hour, -time.Hour, 0},
		"fast":           {time.Hour, time.Hour, 0},
		"slow, then set": {-time.Hour, 0, 1},
		"fast, then set": {time.Hour, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := newFake(t), testStore(t)
			f.mustSignIn(later(s, c.before))
			source := mustSource(t, later(s, c.after), f.url)
			token, err := source.Token(t.Context())
			if err != nil || !f.access[token] || len(f.forms) != 1+c.renewals {
				t.Fatalf("%v, %d token requests", err, len(f.forms))
			}
			// The token expires at the server, which rejects it.
			f.with(func() { delete(f.access, token) })
			again, err := source.Renew(t.Context(), token)
			if err != nil || !f.access[again] || len(f.forms) != 2+c.renewals {
				t.Errorf("%v, %d token requests", err, len(f.forms))
			}
			if last, err := source.Token(t.Context()); err != nil || last != again {
				t.Errorf("%v: another token than the renewed one", err)
			}
		})
	}
}

func TestToken_RefreshTokenNotRotated(t *testing.T) {
	f, s := newFake(t), testStore(t)
	f.mustSignIn(s)
	f.token = func(w http.ResponseWriter, _ url.Values) bool {
		m := f.grant()
		delete(m, "refresh_token")
		writeJSON(w, 200, m)
		return true
	}
	for i := 1; i < 4; i++ {
		if _, err := mustSource(t, later(s, time.Duration(i)*time.Hour), f.url).Token(t.Context()); err != nil {
			t.Fatal(err)
		}
		if f.forms[i].Get("refresh_token") != f.forms[1].Get("refresh_token") {
			t.Error("another refresh token was used")
		}
	}
}

// A server that rotates refresh tokens takes a second use for theft (RFC 9700
// section 4.14.2): goroutines and processes renew once.
func TestToken_OneRenewalForAllProcesses(t *testing.T) {
	f, s := newFake(t), testStore(t)
	f.lifetime = 1 // ended at once, by our leeway
	f.mustSignIn(s)
	f.lifetime = 300
	source := mustSource(t, s, f.url)
	tokens := make(chan string, 40)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			token, err := source.Token(t.Context())
			if err != nil {
				t.Error(err)
			}
			tokens <- token
		})
	}
	for range 6 {
		all.Go(func() {
			cmd := exec.Command(os.Args[0], f.url)
			cmd.Env = append(os.Environ(), asProcess+"="+s.records.dir)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%v: %s", err, stderr.String())
			}
			tokens <- strings.TrimSpace(string(out))
		})
	}
	all.Wait()
	close(tokens)
	different := map[string]bool{}
	for token := range tokens {
		different[token] = true
	}
	if len(different) != 1 || len(f.forms) != 2 {
		t.Errorf("%d different tokens, %d renewals", len(different), len(f.forms)-1)
	}
}

func TestToken_RenewalRefused(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		signIn bool // only the person can help
	}{
		"refused":           {func(w http.ResponseWriter) { refuse(400, "invalid_grant", "expired")(w, nil) }, true},
		"unknown client":    {func(w http.ResponseWriter) { refuse(401, "invalid_client", "")(w, nil) }, true},
		"overloaded":        {func(w http.ResponseWriter) { refuse(429, "slow_down", "")(w, nil) }, false},
		"out of order":      {func(w http.ResponseWriter) { w.WriteHeader(503) }, false},
		"for the moment":    {func(w http.ResponseWriter) { refuse(400, "temporarily_unavailable", "")(w, nil) }, false},
		"a page in its way": {func(w http.ResponseWriter) { w.WriteHeader(403); w.Write([]byte("<html>blocked")) }, false},
		"a broken answer":   {func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json"); w.Write([]byte("{")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := newFake(t), testStore(t)
			f.mustSignIn(s)
			f.with(func() { f.token = func(w http.ResponseWriter, _ url.Values) bool { c.answer(w); return true } })
			source := mustSource(t, later(s, time.Hour), f.url)
			_, err := source.Token(t.Context())
			if err == nil || errors.Is(err, ErrSignIn) != c.signIn || !strings.Contains(err.Error(), f.issuer) {
				t.Fatalf("got %v", err)
			}
			f.mustKeepSecrets(err.Error())
			f.with(func() { f.token = nil })
			asked := len(f.forms)
			_, err = source.Token(t.Context())
			if c.signIn && (!errors.Is(err, ErrSignIn) || len(f.forms) != asked) {
				t.Errorf("the server was asked again: %v", err)
			}
			if !c.signIn && err != nil {
				t.Errorf("after the outage: %v", err)
			}
			if login := f.mustSignIn(s); !login.Renews {
				t.Errorf("%+v", login)
			}
			if name == "unknown client" && len(f.registrations) != 2 {
				t.Errorf("%d registrations: the client was not registered anew", len(f.registrations))
			}
		})
	}
}

func TestRenew_Once(t *testing.T) {
	f, s := newFake(t), testStore(t)
	f.mustSignIn(s)
	source := mustSource(t, s, f.url)
	old, _ := source.Token(t.Context())
	fresh, err := source.Renew(t.Context(), old)
	if err != nil || fresh == old {
		t.Fatal(err)
	}
	// Who comes late with the same complaint is given what there is.
	if again, err := source.Renew(t.Context(), old); err != nil || again != fresh || len(f.forms) != 2 {
		t.Errorf("%v, %d token requests", err, len(f.forms))
	}
	if _, err := mustSource(t, testStore(t), f.url).Renew(t.Context(), ""); !errors.Is(err, ErrSignIn) {
		t.Errorf("without a sign-in: %v", err)
	}
	if token, err := mustSource(t, testStore(t), f.url).Token(t.Context()); token != "" || err != nil {
		t.Errorf("without a sign-in: %v", err)
	}
}

// The rotated token is stored although its caller canceled.
func TestRenew_CanceledCaller(t *testing.T) {
	f, s := newFake(t), testStore(t)
	f.mustSignIn(s)
	ctx, cancel := context.WithCancel(t.Context())
	f.token = func(http.ResponseWriter, url.Values) bool { cancel(); return false }
	moved := later(s, time.Hour)
	if _, err := mustSource(t, moved, f.url).Token(ctx); err != nil {
		t.Fatal(err)
	}
	f.token = nil
	if _, err := mustSource(t, later(s, 2*time.Hour), f.url).Token(t.Context()); err != nil {
		t.Errorf("the next renewal: %v", err)
	}
}

func TestRenew_UnwritableStore(t *testing.T) {
	if os.Getuid() == 0 {
		// root writes everywhere; a directory in the file's place stops it too.
		t.Log("as root the directory is replaced")
	}
	f, s := newFake(t), testStore(t)
	f.mustSignIn(s)
	file, kept, err := s.records.find(t.Context(), mustURL(f.url))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(file, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.refresh(t.Context(), file, kept); err == nil || len(f.forms) != 1 {
		t.Errorf("%v, %d token requests", err, len(f.forms))
	}
}

func TestSource_CoveredURLs(t *testing.T) {
	f, s := newFake(t), testStore(t)
	f.mustSignIn(s)
	base := strings.TrimSuffix(f.url, "/registry/default")
	for target, signedIn := range map[string]bool{
		f.url: true, f.url + "/": true, f.url + "/v0.1/servers?limit=1": true, f.url + "?x=1": true,
		base: false, base + "/registry": false, base + "/registry/default2": false, base + "/registry/other": false,
		"https://registry.example/registry/default": false, strings.Replace(f.url, "127.0.0.1", "localhost", 1): false,
		strings.Replace(f.url, "http:", "https:", 1): false,
	} {
		token, err := mustSource(t, s, target).Token(t.Context())
		if err != nil || (token != "") != signedIn {
			t.Errorf("%s: signed in is %t, %v", target, token != "", err)
		}
	}
}

func TestSource_Spellings(t *testing.T) {
	for _, same := range [][]string{
		{"https://R.example/A", "https://r.example:443/A/", "https://r.example/A"},
		{"http://[::1]:80/", "http://[::1]"},
	} {
		for _, other := range same[1:] {
			if a, b := key(mustURL(same[0])), key(mustURL(other)); a != b {
				t.Errorf("%s is %s, %s is %s", same[0], a, other, b)
			}
		}
	}
	if key(mustURL("https://r.example/A")) == key(mustURL("https://r.example/a")) {
		t.Error("paths differ by case")
	}
}

func TestSource_DamagedFile(t *testing.T) {
	f, s := newFake(t), testStore(t)
	f.mustSignIn(s)
	file, _, _ := s.records.find(t.Context(), mustURL(f.url))
	index, _ := os.ReadFile(file)
	key := s.records.key(file)
	value, err := s.records.values.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	good := []byte(value)
	check := func(name string) {
		token, err := mustSource(t, s, f.url).Token(t.Context())
		if err == nil || token != "" || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
		f.mustKeepSecrets(fmt.Sprint(err))
	}
	for name, content := range map[string][]byte{
		"half": index[:len(index)/2], "empty": nil, "of another version": []byte(`{"version":3}`),
		"endless": bytes.Repeat([]byte(" "), maxDocument+1),
	} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		check("a file that is " + name)
	}
	if err := os.WriteFile(file, index, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"half": good[:len(good)/2], "no JSON": []byte("x"), "of another version": bytes.Replace(good, []byte(`"version":1`), []byte(`"version":2`), 1),
		"of another resource": bytes.ReplaceAll(good, []byte(f.url), []byte("https://bank.example")),
	} {
		if err := s.records.values.Set(t.Context(), key, string(content)); err != nil {
			t.Fatal(err)
		}
		check("a value that is " + name)
	}
}

// RFC 7009.
func TestSignOut(t *testing.T) {
	f, s := newFake(t), testStore(t)
	f.mustSignIn(s)
	_, kept, _ := s.records.find(t.Context(), mustURL(f.url))
	out, err := s.SignOut(t.Context(), f.url)
	if err != nil || !out.Revoked || out.Problem != nil || out.Login == nil {
		t.Fatalf("%+v, %v", out, err)
	}
	if len(f.revoked) != 2 || f.revoked[0].Get("token") != string(kept.RefreshToken) || f.revoked[0].Get("token_type_hint") != "refresh_token" || f.revoked[0].Get("client_id") != "client-1" {
		t.Errorf("%v", f.revoked)
	}
	if login, err := s.Current(t.Context(), f.url); login != nil || err != nil {
		t.Errorf("%+v, %v", login, err)
	}
	if out, err := s.SignOut(t.Context(), f.url); err != nil || out.Login != nil {
		t.Errorf("again: %+v, %v", out, err)
	}
}

func TestSignOut_RevocationFails(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(f *fake)
		problem string
	}{
		"no way to revoke":    {func(f *fake) { delete(f.metadata, "revocation_endpoint") }, ""},
		"revoking is refused": {func(f *fake) { f.asPath["/revoke"] = refuse(400, "invalid_client", "no") }, "invalid_client"},
		"revoking fails": {func(f *fake) {
			f.asPath["/revoke"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }
		}, "503"},
		"the server is gone": {func(f *fake) { f.metadata["revocation_endpoint"] = "http://127.0.0.1:1/revoke" }, "refused"},
		"not for access tokens": {func(f *fake) {
			f.asPath["/revoke"] = func(w http.ResponseWriter, r *http.Request) {
				r.ParseForm()
				if r.PostForm.Get("token_type_hint") == "access_token" {
					refuse(400, "unsupported_token_type", "")(w, r)
				}
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := newFake(t), testStore(t)
			c.prepare(f)
			f.mustSignIn(s)
			out, err := s.SignOut(t.Context(), f.url)
			if err != nil || out.Login == nil || (out.Problem != nil) != (c.problem != "") || out.Problem != nil && !strings.Contains(out.Problem.Error(), c.problem) {
				t.Errorf("%+v, %v", out, err)
			}
			f.mustKeepSecrets(fmt.Sprint(out.Problem))
			if token, err := mustSource(t, s, f.url).Token(t.Context()); token != "" || err != nil {
				t.Errorf("still signed in, %v", err)
			}
		})
	}
}

// The rule of the package's comment.
func TestReach(t *testing.T) {
	for address, want := range map[string]reach{
		"127.0.0.1": reachAny, "::1": reachAny, "::ffff:127.0.0.1": reachAny, "10.1.2.3": reachPrivate, "192.168.1.1": reachPrivate, "fd00::1": reachPrivate,
		"100.64.1.1": reachPrivate, "fe80::1": reachPrivate, "93.184.216.34": reachPublic, "2606:2800::1": reachPublic,
	} {
		if got := reachOfIP(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
	for raw, least := range map[string]reach{
		"https://as.example/": reachPublic, "https://10.0.0.1/": reachPrivate, "https://127.0.0.1/": reachAny, "https://localhost/": reachAny,
		"http://localhost:8/": reachAny, "http://[::1]:8/": reachAny, "https://[::ffff:10.0.0.1]/": reachPrivate,
	} {
		order := []reach{reachPublic, reachPrivate, reachAny}
		ok := false
		for _, r := range order {
			ok = ok || r == least
			if _, err := r.checkURL("it", raw); (err == nil) != ok {
				t.Errorf("%s may name %s: %v", r, raw, err)
			}
		}
	}
	for _, raw := range []string{"http://as.example/", "ftp://as.example", "https://", "//as.example", "https:opaque", "https://a@b/", "https://a/#b", "https://" + strings.Repeat("a", maxURL), "\x00"} {
		if _, err := reachAny.checkURL("it", raw); err == nil {
			t.Errorf("%q was allowed", raw)
		}
	}
}

// What counts is the address that is connected to.
func TestReach_NotConnected(t *testing.T) {
	hit := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hit = true }))
	defer server.Close()
	for _, r := range []reach{reachPublic, reachPrivate} {
		w, err := testStore(t).within(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.get(t.Context(), server.URL, ""); err == nil || hit {
			t.Errorf("%s: this machine was reached", r)
		}
	}
	f, s := newFake(t), testStore(t)
	f.mustSignIn(s)
	if _, kept, _ := s.records.find(t.Context(), mustURL(f.url)); kept.Reach != reachAny {
		t.Errorf("the reach of a resource of this machine is %s", kept.Reach)
	}
}
