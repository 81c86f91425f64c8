package oauthclient

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/secret/local"
)

// fake is an authorization server and, on another port, a resource it protects.
// It does everything right until a test changes a document or an answer.
type fake struct {
	t          *testing.T
	as, rs     *httptest.Server
	issuer     string // of the authorization server
	url        string // of the resource
	probe      string
	challenge  string         // of the 401; "" is the right one, "none" none
	resource   map[string]any // RFC 9728 document
	metadata   map[string]any // RFC 8414 document
	asPath     map[string]http.HandlerFunc
	rsPath     map[string]http.HandlerFunc
	token      func(w http.ResponseWriter, form url.Values) bool // true: it has answered
	redirect   func(q url.Values)                                // changes the answer to the browser
	acceptsAll bool

	mu            sync.Mutex
	requests      []string // METHOD path, of the authorization server
	registrations []map[string]any
	authorized    []url.Values
	forms         []url.Values // of the token endpoint
	auth          []string     // Authorization of those
	revoked       []url.Values
	codes         map[string]url.Values
	access        map[string]bool
	refresh       map[string]bool
	serial        int
	lifetime      int
	secrets       []string // everything that must not be shown
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, codes: map[string]url.Values{}, access: map[string]bool{}, refresh: map[string]bool{}, lifetime: 300,
		asPath: map[string]http.HandlerFunc{}, rsPath: map[string]http.HandlerFunc{}}
	f.as = httptest.NewServer(http.HandlerFunc(f.serveAS))
	t.Cleanup(f.as.Close)
	f.rs = httptest.NewServer(http.HandlerFunc(f.serveRS))
	t.Cleanup(f.rs.Close)
	f.issuer, f.url = f.as.URL, f.rs.URL+"/registry/default"
	f.probe = f.url + "/v0.1/servers?limit=1"
	f.resource = map[string]any{"resource": f.url, "authorization_servers": []string{f.issuer}, "scopes_supported": []string{"read", "write"}, "bearer_methods_supported": []string{"header"}}
	f.metadata = map[string]any{
		"issuer": f.issuer, "authorization_endpoint": f.issuer + "/authorize?tenant=1", "token_endpoint": f.issuer + "/token",
		"registration_endpoint": f.issuer + "/register", "revocation_endpoint": f.issuer + "/revoke",
		"scopes_supported": []string{"read", "write", "offline_access"}, "response_types_supported": []string{"code"},
		"grant_types_supported": []string{"authorization_code", "refresh_token"}, "code_challenge_methods_supported": []string{"plain", "S256"},
		"authorization_response_iss_parameter_supported": true,
	}
	return f
}

func (f *fake) secret(kind string) string {
	f.serial++
	s := fmt.Sprintf("%s-of-the-tests-%d", kind, f.serial)
	f.secrets = append(f.secrets, s)
	return s
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func (f *fake) serveRS(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.rsPath[r.URL.Path]; h != nil {
		h(w, r)
		return
	}
	switch {
	case r.URL.Path == "/.well-known/oauth-protected-resource/registry/default":
		writeJSON(w, 200, f.resource)
	case !strings.HasPrefix(r.URL.Path, "/registry/default"):
		http.NotFound(w, r)
	case f.acceptsAll || f.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]:
		writeJSON(w, 200, map[string]any{"servers": []any{}})
	default:
		switch f.challenge {
		case "none":
		case "":
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="r", resource_metadata="%s/.well-known/oauth-protected-resource/registry/default"`, f.rs.URL))
		default:
			w.Header().Set("WWW-Authenticate", f.challenge)
		}
		w.WriteHeader(401)
	}
}

func (f *fake) serveAS(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, r.Method+" "+r.URL.Path)
	if h := f.asPath[r.URL.Path]; h != nil {
		h(w, r)
		return
	}
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		writeJSON(w, 200, f.metadata)
	case "/register":
		var m map[string]any
		if json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(400)
			return
		}
		f.registrations = append(f.registrations, m)
		m["client_id"] = fmt.Sprintf("client-%d", len(f.registrations))
		writeJSON(w, 201, m)
	case "/authorize":
		f.authorize(w, r)
	case "/token":
		r.ParseForm()
		f.forms, f.auth = append(f.forms, r.PostForm), append(f.auth, r.Header.Get("Authorization"))
		f.serveToken(w, r.PostForm)
	case "/revoke":
		r.ParseForm()
		f.revoked = append(f.revoked, r.PostForm)
		delete(f.access, r.PostForm.Get("token"))
		delete(f.refresh, r.PostForm.Get("token"))
	default:
		http.NotFound(w, r)
	}
}

func (f *fake) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f.authorized = append(f.authorized, q)
	code := f.secret("code")
	f.codes[code] = q
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {f.issuer}}
	if f.redirect != nil {
		f.redirect(back)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusSeeOther)
}

func (f *fake) serveToken(w http.ResponseWriter, form url.Values) {
	if f.token != nil && f.token(w, form) {
		return
	}
	refuse := func(code string) { writeJSON(w, 400, map[string]string{"error": code, "error_description": "no"}) }
	switch form.Get("grant_type") {
	case "authorization_code":
		asked, ok := f.codes[form.Get("code")]
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		f.secrets = append(f.secrets, form.Get("code_verifier"))
		delete(f.codes, form.Get("code"))
		if !ok || asked.Get("code_challenge_method") != "S256" || base64.RawURLEncoding.EncodeToString(sum[:]) != asked.Get("code_challenge") ||
			asked.Get("redirect_uri") != form.Get("redirect_uri") || asked.Get("resource") != form.Get("resource") {
			refuse("invalid_grant")
			return
		}
	case "refresh_token":
		if !f.refresh[form.Get("refresh_token")] {
			refuse("invalid_grant")
			return
		}
		delete(f.refresh, form.Get("refresh_token"))
	default:
		refuse("unsupported_grant_type")
		return
	}
	writeJSON(w, 200, f.grant())
}

// grant makes new tokens.
func (f *fake) grant() map[string]any {
	access, refresh := f.secret("access"), f.secret("refresh")
	f.access[access], f.refresh[refresh] = true, true
	return map[string]any{"access_token": access, "token_type": "bearer", "refresh_token": refresh, "expires_in": f.lifetime, "scope": "read"}
}

func (f *fake) with(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fake) request() Request {
	return Request{Target: f.url, Probe: f.probe, Patience: time.Minute, Show: func(address string) { go f.browse(address) }}
}

// browse is a person with a browser who agrees to everything.
func (f *fake) browse(address string) {
	resp, err := http.Get(address)
	if err != nil {
		return // the attempt was given up
	}
	resp.Body.Close()
}

func testStore(t *testing.T) *Store {
	t.Helper()
	return openIn(filepath.Join(t.TempDir(), "oauth"), func(string) string { return "" })
}

// openIn opens a store with its values in a secrets store in the same directory.
func openIn(dir string, env func(string) string) *Store {
	return Open(dir, local.Open(local.Config{Dir: filepath.Join(dir, "secrets")}), env)
}

// signIn signs in with a browser.
func (f *fake) signIn(s *Store) (*Login, error) { return s.SignIn(context.Background(), f.request()) }

func (f *fake) mustSignIn(s *Store) *Login {
	f.t.Helper()
	login, err := f.signIn(s)
	if err != nil {
		f.t.Fatal(err)
	}
	return login
}

// mustKeepSecrets fails when a text holds something that was secret.
func (f *fake) mustKeepSecrets(texts ...string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, text := range texts {
		for _, s := range f.secrets {
			if strings.Contains(text, s) {
				f.t.Errorf("%q shows %q", text, s)
			}
		}
	}
}

// keptFiles are the files of a store, without locks.
func keptFiles(t *testing.T, s *Store) []string {
	t.Helper()
	var files []string
	filepath.WalkDir(s.records.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, ".lock") {
			files = append(files, path)
		}
		return nil
	})
	return files
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
