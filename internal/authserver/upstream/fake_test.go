package upstream

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
	"github.com/toolhaven/toolhaven/internal/authserver/storage/memory"
	"github.com/toolhaven/toolhaven/internal/externalauth"
)

type object = map[string]any

const (
	clientSecret = "client-secret-of-the-tests"
	callbackURL  = "https://gateway.example/oauth/callback"
	theCode      = "the-authorization-code"
	theAccess    = "the-access-token"
	theRefresh   = "the-refresh-token"
)

// fake is an identity provider over real HTTP. Each of its answers can be replaced.
type fake struct {
	*httptest.Server
	key *ecdsa.PrivateKey

	mu       sync.Mutex
	metadata object
	claims   object // of the ID token, changed
	nonce    string // of the last authorization request
	answer   object // of the token endpoint, changed
	routes   map[string]http.HandlerFunc
	requests []request
	down     atomic.Bool
}

// request is one that the fake received.
type request struct {
	method, path string
	header       http.Header
	form         url.Values
}

func newFake(t testing.TB) *fake {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{key: key, claims: object{}, answer: object{}}
	f.routes = map[string]http.HandlerFunc{
		"/.well-known/openid-configuration": func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, f.metadata) },
		"/jwks": func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: f.key.Public(), KeyID: "k", Use: "sig", Algorithm: "ES256"}}})
		},
		"/token":    func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, f.tokens()) },
		"/userinfo": func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, object{"sub": "jo"}) },
	}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	f.metadata = object{
		"issuer": f.URL, "authorization_endpoint": f.URL + "/authorize", "token_endpoint": f.URL + "/token",
		"jwks_uri": f.URL + "/jwks", "scopes_supported": []string{"openid", "offline_access", "email"},
	}
	return f
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	f.mu.Lock()
	f.requests = append(f.requests, request{r.Method, r.URL.Path, r.Header, r.Form})
	handler := f.routes[r.URL.Path]
	f.mu.Unlock()
	switch {
	case f.down.Load():
		http.Error(w, "down", http.StatusServiceUnavailable)
	case handler == nil:
		http.NotFound(w, r)
	default:
		handler(w, r)
	}
}

// serve replaces what a path answers.
func (f *fake) serve(path string, handler http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.routes[path] = handler
}

// says makes a path answer with a text.
func (f *fake) says(path string, status int, media, text string) {
	f.serve(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	})
}

// sent are the requests to a path.
func (f *fake) sent(path string) []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []request
	for _, r := range f.requests {
		if r.path == path {
			found = append(found, r)
		}
	}
	return found
}

func change(base, changes object) object {
	out := maps.Clone(base)
	maps.Copy(out, changes)
	maps.DeleteFunc(out, func(_ string, v any) bool { return v == nil })
	return out
}

// tokens is the answer of the token endpoint.
func (f *fake) tokens() object {
	f.mu.Lock()
	defer f.mu.Unlock()
	return change(object{
		"access_token": theAccess, "token_type": "Bearer", "expires_in": 3600, "refresh_token": theRefresh, "id_token": f.idToken(),
	}, f.answer)
}

func (f *fake) idToken() string {
	claims := change(object{
		"iss": f.URL, "aud": "gateway", "sub": "jo", "nonce": f.nonce, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}, f.claims)
	return sign(f.key, "k", claims)
}

func sign(key crypto.Signer, kid string, claims object) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	if err != nil {
		panic(err)
	}
	payload, _ := json.Marshal(claims)
	signed, err := signer.Sign(payload)
	if err != nil {
		panic(err)
	}
	token, _ := signed.CompactSerialize()
	return token
}

var secretRef = &externalauth.SecretRef{Name: "idp", Key: "secret"}

func (f *fake) oidc(changes ...func(*externalauth.OIDC)) externalauth.UpstreamProvider {
	c := &externalauth.OIDC{IssuerURL: f.URL, ClientID: "gateway", ClientSecretRef: secretRef}
	for _, change := range changes {
		change(c)
	}
	return externalauth.UpstreamProvider{Name: "idp", Type: externalauth.UpstreamOIDC, OIDC: c}
}

func (f *fake) oauth2(changes ...func(*externalauth.OAuth2)) externalauth.UpstreamProvider {
	c := &externalauth.OAuth2{AuthorizationEndpoint: f.URL + "/authorize", TokenEndpoint: f.URL + "/token", ClientID: "gateway", ClientSecretRef: secretRef}
	for _, change := range changes {
		change(c)
	}
	return externalauth.UpstreamProvider{Name: "idp", Type: externalauth.UpstreamOAuth2, OAuth2: c}
}

// newProvider makes a Provider; the changes are of its configuration.
func newProvider(t testing.TB, spec externalauth.UpstreamProvider, changes ...func(*Config)) *Provider {
	t.Helper()
	c := Config{
		Spec: spec, RedirectURI: callbackURL, Store: newStore(),
		Secret: func(externalauth.SecretRef) (string, error) { return clientSecret, nil },
		Keys:   func() ([][]byte, error) { return [][]byte{bytes.Repeat([]byte{1}, 32)}, nil },
		Log:    slog.New(slog.NewTextHandler(noSecrets{t}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, change := range changes {
		change(&c)
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// noSecrets fails the test for a secret in the log.
type noSecrets struct{ t testing.TB }

func (n noSecrets) Write(b []byte) (int, error) {
	checkNoSecrets(n.t, string(b))
	return len(b), nil
}

func checkNoSecrets(t testing.TB, text string) {
	for _, secret := range []string{clientSecret, theCode, theAccess, theRefresh, "eyJ"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in %q", secret, text)
		}
	}
}

// begin authorizes, and returns the attempt with what the browser would return with.
func (f *fake) begin(t testing.TB, p *Provider) (Attempt, url.Values) {
	t.Helper()
	location, a, err := p.Authorize(t.Context(), "the-state")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	f.nonce = u.Query().Get("nonce")
	f.mu.Unlock()
	// As the server does: the attempt is stored as JSON.
	stored, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var again Attempt
	if err := json.Unmarshal(stored, &again); err != nil {
		t.Fatal(err)
	}
	return again, url.Values{"code": {theCode}, "state": {u.Query().Get("state")}}
}

// login is a whole sign-in. No secret is in its error.
func (f *fake) login(t testing.TB, p *Provider) (*Login, error) {
	t.Helper()
	a, callback := f.begin(t, p)
	login, err := p.Finish(t.Context(), a, callback)
	if err != nil {
		checkNoSecrets(t, err.Error())
		if strings.Contains(err.Error(), a.Verifier) || a.Nonce != "" && strings.Contains(err.Error(), a.Nonce) {
			t.Errorf("a secret of the attempt is in %q", err)
		}
	}
	return login, err
}

// clock can be moved.
type clock struct {
	start  time.Time
	offset atomic.Int64
}

func (p *Provider) stop() *clock {
	c := &clock{start: time.Now()}
	p.now = c.now
	return c
}

func (c *clock) now() time.Time          { return c.start.Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// store is one in memory that can fail, and that notes what is put into it.
type store struct {
	storage.Store
	broken atomic.Bool
	mu     sync.Mutex
	put    map[string]string
}

func newStore() *store { return &store{Store: memory.New(memory.Options{}), put: map[string]string{}} }

func (s *store) Get(ctx context.Context, key string) ([]byte, error) {
	if s.broken.Load() {
		return nil, errors.New("the store is broken")
	}
	return s.Store.Get(ctx, key)
}

func (s *store) Put(ctx context.Context, key string, value []byte, lifetime time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put[key] = string(value)
	return s.Store.Put(ctx, key, value, lifetime)
}
