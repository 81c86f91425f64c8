package vault

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/secret"
)

// fakeKV is a key/value engine of version 2 at the mount team/kv. The real Vault is not in
// Debian, and is too large to build for a test.
type fakeKV struct {
	mu       sync.Mutex
	secrets  map[string]map[string]any
	versions map[string]int
	race     func() // called before a write, once
	fault    int    // the status of every response; 0 is none
}

func newFakeKV(t *testing.T) (*fakeKV, *Provider) {
	t.Helper()
	f := &fakeKV{secrets: map[string]map[string]any{}, versions: map[string]int{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	p, err := New(Config{Address: server.URL, Mount: "team/kv/"}, func(name string) string {
		return map[string]string{"VAULT_TOKEN": "t0ken", "VAULT_NAMESPACE": "ns"}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	return f, p
}

func (f *fakeKV) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reply := func(status int, v any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	failed := func(status int, message string) { reply(status, map[string]any{"errors": []string{message}}) }
	if r.Header.Get("X-Vault-Token") != "t0ken" || r.Header.Get("X-Vault-Namespace") != "ns" {
		failed(403, "permission denied")
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault != 0 {
		failed(f.fault, "fault")
		return
	}
	kind, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/team/kv/"), "/")
	switch r.Method + " " + kind {
	case "GET data":
		version := map[string]any{"metadata": map[string]any{"version": f.versions[path]}, "data": f.secrets[path]}
		switch {
		case f.versions[path] == 0:
			failed(404, "")
		case f.secrets[path] == nil:
			reply(404, map[string]any{"data": version})
		default:
			reply(200, map[string]any{"data": version})
		}
	case "POST data":
		if race := f.race; race != nil {
			f.race = nil
			race()
		}
		var body struct {
			Data    map[string]any
			Options struct{ CAS int }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			failed(400, err.Error())
			return
		}
		if body.Options.CAS != f.versions[path] {
			failed(400, "check-and-set parameter did not match the current version")
			return
		}
		f.secrets[path] = body.Data
		f.versions[path]++
		reply(200, map[string]any{"data": map[string]any{"version": f.versions[path]}})
	case "DELETE metadata":
		delete(f.secrets, path)
		delete(f.versions, path)
		w.WriteHeader(204)
	case "GET metadata":
		var keys []string
		for name := range f.secrets {
			rest, below := strings.CutPrefix(name, path)
			first, _, folder := strings.Cut(rest, "/")
			if folder {
				first += "/"
			}
			if below && !slices.Contains(keys, first) {
				keys = append(keys, first)
			}
		}
		if r.URL.Query().Get("list") != "true" || keys == nil {
			failed(404, "")
			return
		}
		reply(200, map[string]any{"data": map[string]any{"keys": keys}})
	default:
		failed(405, "unsupported")
	}
}

func TestProvider(t *testing.T) {
	t.Parallel()
	f, p := newFakeKV(t)
	ctx := t.Context()
	if names, err := p.List(ctx); len(names) > 0 || err != nil {
		t.Errorf("%v, %v", names, err)
	}
	for name, value := range map[string]string{"github": "hunter2", "team/db#password": "p", "team/db#user": "u"} {
		if err := p.Set(ctx, name, value); err != nil {
			t.Fatal(err)
		}
		if got, err := p.Get(ctx, name); got != value || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	names, err := p.List(ctx)
	if diff := cmp.Diff([]string{"github", "team/db"}, names); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if diff := cmp.Diff(map[string]any{"password": "p", "user": "u"}, f.secrets["team/db"]); diff != "" {
		t.Error(diff)
	}
	// A field of several, and then the last one.
	for _, name := range []string{"team/db#user", "team/db#password"} {
		if err := p.Delete(ctx, name); err != nil {
			t.Fatal(err)
		}
		if err := p.Delete(ctx, name); !errors.Is(err, secret.ErrNotFound) {
			t.Errorf("deleted twice: %v", err)
		}
	}
	if _, there := f.secrets["team/db"]; there {
		t.Error("an empty secret is left")
	}
	// A deleted version can be written again.
	f.secrets["github"] = nil
	if _, err := p.Get(ctx, "github"); !errors.Is(err, secret.ErrNotFound) {
		t.Error(err)
	}
	if err := p.Set(ctx, "github", "again"); err != nil {
		t.Error(err)
	}
	f.secrets["number"], f.versions["number"] = map[string]any{"value": 1.5}, 1
	if _, err := p.Get(ctx, "number"); err == nil || !strings.Contains(err.Error(), "not text") {
		t.Error(err)
	}
	for _, name := range []string{"", "a/../b", "/a", "a//b", "a#", "a b", "a?b", "op://a/b/c"} {
		if _, err := p.Get(ctx, name); err == nil || !strings.Contains(err.Error(), "give PATH") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A write between reading and writing is not lost.
func TestSet_ReadsAgainAfterAnotherWriter(t *testing.T) {
	t.Parallel()
	f, p := newFakeKV(t)
	f.race = func() {
		f.secrets["db"] = map[string]any{"user": "u"}
		f.versions["db"]++
	}
	if err := p.Set(t.Context(), "db#password", "p"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"password": "p", "user": "u"}, f.secrets["db"]); diff != "" {
		t.Error(diff)
	}
}

func TestProvider_Faults(t *testing.T) {
	t.Parallel()
	f, p := newFakeKV(t)
	for status, want := range map[int]string{403: "refuses the token (403): fault", 503: "sealed or in standby", 500: "status 500: fault", 307: "status 307"} {
		f.mu.Lock()
		f.fault = status
		f.mu.Unlock()
		_, err := p.List(t.Context())
		for _, err := range []error{err, p.Set(t.Context(), "a", "hunter2")} {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "t0ken") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%d: %v", status, err)
			}
		}
	}
	html := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
	defer html.Close()
	env := map[string]string{"VAULT_ADDR": html.URL, "VAULT_TOKEN": "x"}
	p, err := New(Config{}, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Get(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "something else than JSON") {
		t.Error(err)
	}
	delete(env, "VAULT_TOKEN")
	if _, err := p.Get(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "set VAULT_TOKEN, or run `vault login`") {
		t.Error(err)
	}
	env["HOME"] = t.TempDir()
	if err := os.WriteFile(filepath.Join(env["HOME"], ".vault-token"), []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err := p.token(); token != "x" || err != nil {
		t.Errorf("%q, %v", token, err)
	}
	for address, want := range map[string]string{"": "set VAULT_ADDR", "http://vault.example.com": "HTTPS", "https://a:b@vault.example.com": "the address of Vault"} {
		if _, err := New(Config{Address: address}, func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
