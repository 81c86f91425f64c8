//go:build integration

package registry

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/toolhaven/toolhaven/test/tokens"
)

// What the tests of identity have in common: a caller that keeps account of every
// token it sends, tokens that no honest provider makes, providers that misbehave,
// and files that are replaced as Kubernetes does it.

const (
	metadataURL = "https://registry.example.com/.well-known/oauth-protected-resource/mcp"
	// challenge is every WWW-Authenticate, up to the error (RFC 6750 section 3,
	// RFC 9728 section 5.1).
	challenge = `Bearer realm="mcp-registry", resource_metadata="` + metadataURL + `"`
)

// caller sends tokens to a server, and remembers them.
type caller struct {
	*instance
	mu   sync.Mutex
	sent []string
}

// calls makes a caller, and when the test ends looks for the tokens where none
// may be.
func calls(t *testing.T, s *instance) *caller {
	c := &caller{instance: s}
	t.Cleanup(c.nothingLeaked)
	return c
}

// remember notes tokens that are secrets and are not sent as the whole value.
func (c *caller) remember(tokens ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = append(c.sent, tokens...)
}

// get requests the list of servers with the given header fields.
func (c *caller) get(t testing.TB, h http.Header) answer {
	t.Helper()
	return c.request(t, http.MethodGet, servers, nil, h)
}

// with requests the list of servers with a token.
func (c *caller) with(t testing.TB, token string) answer {
	t.Helper()
	return c.get(t, bearer(token))
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func (c *caller) request(t testing.TB, method, path string, body io.Reader, h http.Header) answer {
	t.Helper()
	for _, value := range h["Authorization"] {
		if _, token, ok := strings.Cut(value, " "); ok {
			c.remember(token)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, c.base+path, body)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, h)
	resp, err := (&http.Client{Timeout: patience}).Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return a
}

// refused holds an answer to what a refusal is: the error in the challenge and in
// the body, nothing to cache, and not a piece of the token. code is "" where no
// credential was sent.
func refused(t testing.TB, a answer, code string) {
	t.Helper()
	var body struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if a.status != http.StatusUnauthorized {
		t.Errorf("not 401 but %s", a)
		return
	}
	a.into(t, &body)
	want := challenge
	if code != "" {
		want += fmt.Sprintf(", error=%q, error_description=%q", code, body.Description)
	} else {
		code = "unauthorized"
	}
	if got := a.header.Values("WWW-Authenticate"); len(got) != 1 || got[0] != want {
		t.Errorf("WWW-Authenticate is %q, not %q", got, want)
	}
	if body.Error != code || body.Description == "" || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v %s", a.header, a)
	}
}

// accepted: the token lets its bearer in.
func accepted(t testing.TB, a answer) {
	t.Helper()
	if a.status != http.StatusOK {
		t.Errorf("not accepted: %s", a)
	}
}

// nothingLeaked looks for every token that was sent, and for its telling parts,
// in the whole log and in the metrics.
func (c *caller) nothingLeaked() {
	places := map[string]string{"the log": c.log.String()}
	if resp, err := http.Get(c.internal + "/metrics"); err == nil {
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		places["/metrics"] = string(text)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, token := range c.sent {
		pieces := []string{token}
		// The header of a JWT is no secret; claims and signature are.
		if parts := strings.Split(token, "."); len(parts) > 2 {
			pieces = append(pieces, parts[1:]...)
		}
		for _, piece := range pieces {
			if len(piece) < 16 {
				continue
			}
			for place, text := range places {
				if strings.Contains(text, piece) {
					c.t.Errorf("%s holds a token: %.60s", place, piece)
				}
			}
		}
	}
	for _, word := range []string{"panic", "DATA RACE", "a request failed badly"} {
		if strings.Contains(places["the log"], word) {
			c.t.Errorf("the log says %s:\n%s", word, places["the log"])
		}
	}
}

// claims are those of a good token of an issuer, changed.
func claims(issuer string, change map[string]any) string {
	all := map[string]any{"scope": "mcp-registry:read"}
	maps.Copy(all, change)
	return tokens.Issuer{URL: issuer, Audience: resource}.Claims(all)
}

// rogue is a provider whose responses the test sets for each path.
type rogue struct {
	*httptest.Server
	mu     sync.Mutex
	routes map[string]http.HandlerFunc
	// hits counts requests; sent are the Authorization headers, by path.
	hits atomic.Int32
	sent map[string][]string
}

func newRogue(t testing.TB) *rogue {
	t.Helper()
	r := &rogue{routes: map[string]http.HandlerFunc{}, sent: map[string][]string{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(func() { r.CloseClientConnections(); r.Close() })
	return r
}

func (r *rogue) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.hits.Add(1)
	r.mu.Lock()
	r.sent[req.URL.Path] = append(r.sent[req.URL.Path], req.Header.Get("Authorization"))
	handler := r.routes[req.URL.Path]
	r.mu.Unlock()
	if handler == nil {
		http.NotFound(w, req)
		return
	}
	handler(w, req)
}

func (r *rogue) serve(path string, handler http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.routes[path] = handler
}

// says sets the response of a path to JSON.
func (r *rogue) says(path string, v any) {
	text, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		text = string(b)
	}
	r.serve(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, text)
	})
}

// credentials are the Authorization headers that a path was sent.
func (r *rogue) credentials(path string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.sent[path]...)
}

// keySet is what a provider publishes of private keys.
func keySet(keys ...jose.JSONWebKey) jose.JSONWebKeySet {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, k := range keys {
		set.Keys = append(set.Keys, k.Public())
	}
	return set
}

// swapMount replaces the files of a directory as the kubelet does: each name is a
// link through ..data, a link to a dated directory that is replaced as a whole;
// the former one is removed.
func swapMount(t testing.TB, dir string, content map[string]string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	former, _ := os.Readlink(filepath.Join(dir, "..data"))
	next := filepath.Join(dir, time.Now().UTC().Format("..2006_01_02_15_04_05.000000000"))
	must(os.Mkdir(next, 0o755))
	for name, text := range content {
		must(os.WriteFile(filepath.Join(next, name), []byte(text), 0o600))
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); !os.IsExist(err) {
			must(err)
		}
	}
	must(os.Symlink(filepath.Base(next), filepath.Join(dir, "..data_tmp")))
	must(os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	if former != "" {
		must(os.RemoveAll(filepath.Join(dir, former)))
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	_ = json.NewEncoder(w).Encode(v) // the caller went away
}
