package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/toolhaven/toolhaven/test/leak"
	"github.com/toolhaven/toolhaven/test/local"
)

// No test leaves work behind: validators and servers are closed.
func TestMain(m *testing.M) { leak.Main(m) }

// issuer is an identity provider over real HTTP: discovery, keys, introspection.
// Each of its three handlers may be replaced to make it a bad one.
type issuer struct {
	*httptest.Server
	mu      sync.Mutex
	keys    []jose.JSONWebKey
	active  map[string]any // opaque token -> introspection answer
	routes  map[string]http.HandlerFunc
	down    atomic.Bool
	fetches atomic.Int32 // of keys
	asked   atomic.Int32 // introspections
	sent    sync.Map     // path -> the last Authorization header
}

const (
	discoveryPath  = "/.well-known/openid-configuration"
	jwksPath       = "/jwks"
	introspectPath = "/introspect"
)

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	p := &issuer{active: map[string]any{}}
	p.routes = map[string]http.HandlerFunc{
		discoveryPath: func(w http.ResponseWriter, _ *http.Request) {
			json.NewEncoder(w).Encode(map[string]string{"issuer": p.URL, "jwks_uri": p.URL + jwksPath})
		},
		jwksPath: func(w http.ResponseWriter, _ *http.Request) {
			json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: p.published()})
		},
		introspectPath: func(w http.ResponseWriter, r *http.Request) {
			p.mu.Lock()
			answer, ok := p.active[r.FormValue("token")]
			p.mu.Unlock()
			if !ok {
				answer = map[string]any{"active": false}
			}
			json.NewEncoder(w).Encode(answer)
		},
	}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case jwksPath:
		p.fetches.Add(1)
	case introspectPath:
		p.asked.Add(1)
	}
	p.sent.Store(r.URL.Path, r.Header.Get("Authorization"))
	p.mu.Lock()
	handler := p.routes[r.URL.Path]
	p.mu.Unlock()
	switch {
	case p.down.Load():
		http.Error(w, "down", http.StatusServiceUnavailable)
	case handler == nil:
		http.NotFound(w, r)
	default:
		handler(w, r)
	}
}

// credential is the last that was sent to a path.
func (p *issuer) credential(path string) string {
	sent, _ := p.sent.Load(path)
	text, _ := sent.(string)
	return text
}

// serve replaces what a path answers.
func (p *issuer) serve(path string, handler http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.routes[path] = handler
}

// says makes a path respond with a text.
func (p *issuer) says(path, text string) {
	p.serve(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, text)
	})
}

func (p *issuer) published() []jose.JSONWebKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys
}

func (p *issuer) publish(signers ...*signer) {
	keys := []jose.JSONWebKey{}
	for _, s := range signers {
		keys = append(keys, s.public())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = keys
}

func (p *issuer) activate(token string, answer any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active[token] = answer
}

// claims are those of a good token, changed; nil removes one.
func (p *issuer) claims(change map[string]any) map[string]any {
	c := map[string]any{"iss": p.URL, "aud": "registry", "sub": "jo", "exp": time.Now().Add(time.Hour).Unix(), "scope": "a b"}
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func (p *issuer) provider(name string) Provider {
	return Provider{Name: name, IssuerURL: p.URL, Audience: "registry"}
}

// introspecting is the provider with its introspection endpoint.
func (p *issuer) introspecting(name string) Provider {
	provider := p.provider(name)
	provider.IntrospectionURL = p.URL + introspectPath
	return provider
}

// signer is a private key and what an issuer publishes of it.
type signer struct {
	alg jose.SignatureAlgorithm
	kid string
	key crypto.Signer
}

func newSigner(t testing.TB, alg jose.SignatureAlgorithm, kid string) *signer {
	t.Helper()
	var key crypto.Signer
	var err error
	switch alg {
	case jose.ES256:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.ES384:
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case jose.ES512:
		key, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case jose.EdDSA:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &signer{alg: alg, kid: kid, key: key}
}

func (s *signer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.key.Public(), KeyID: s.kid, Use: "sig", Algorithm: string(s.alg)}
}

func (s *signer) sign(t testing.TB, typ string, claims any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	header := map[string]any{"alg": s.alg, "kid": s.kid}
	if typ != "" {
		header["typ"] = typ
	}
	text, _ := json.Marshal(header)
	return s.raw(t, string(text), string(payload))
}

// raw signs any header and payload as they are, so that only what they say can
// be wrong.
func (s *signer) raw(t testing.TB, header, payload string) string {
	t.Helper()
	input := b64(header) + "." + b64(payload)
	var signature []byte
	var err error
	switch key := s.key.(type) {
	case ed25519.PrivateKey:
		signature = ed25519.Sign(key, []byte(input))
	case *ecdsa.PrivateKey:
		hash := map[jose.SignatureAlgorithm]crypto.Hash{jose.ES256: crypto.SHA256, jose.ES384: crypto.SHA384, jose.ES512: crypto.SHA512}[s.alg]
		var r, z *big.Int
		r, z, err = ecdsa.Sign(rand.Reader, key, digestOf(hash, input))
		size := (key.Curve.Params().BitSize + 7) / 8
		signature = append(r.FillBytes(make([]byte, size)), z.FillBytes(make([]byte, size))...)
	case *rsa.PrivateKey:
		hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[string(s.alg[2:])]
		if s.alg[0] == 'P' {
			signature, err = rsa.SignPSS(rand.Reader, key, hash, digestOf(hash, input), &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		} else {
			signature, err = rsa.SignPKCS1v15(nil, key, hash, digestOf(hash, input))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + b64(string(signature))
}

func digestOf(hash crypto.Hash, message string) []byte {
	h := hash.New()
	h.Write([]byte(message))
	return h.Sum(nil)
}

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// hmacToken is signed with a secret (HS256).
func hmacToken(header, payload string, secret []byte) string {
	input := b64(header) + "." + b64(payload)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(input))
	return input + "." + b64(string(mac.Sum(nil)))
}

// clock can be moved. One of stopped moves by nothing else, so that no busy machine
// can bring about what takes time.
type clock struct {
	start  time.Time // zero: it runs
	offset atomic.Int64
}

// stopped is a clock that stands at the time of its creation.
func stopped() *clock { return &clock{start: time.Now()} }

func (c *clock) now() time.Time {
	start := c.start
	if start.IsZero() {
		start = time.Now()
	}
	return start.Add(time.Duration(c.offset.Load()))
}

func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

func newValidator(t testing.TB, providers ...Provider) *Validator {
	t.Helper()
	return newValidatorWith(t, Options{}, providers...)
}

func newValidatorWith(t testing.TB, opt Options, providers ...Provider) *Validator {
	t.Helper()
	v, err := NewValidator(providers, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// testLog keeps what is logged.
type testLog struct{ local.Output }

func (l *testLog) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// eventually polls until something holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// reasons are why a token was refused, for messages.
func reasons(err error) string {
	var r *Rejection
	if !errors.As(err, &r) {
		return fmt.Sprint(err)
	}
	var all []string
	for _, a := range r.Attempts {
		all = append(all, a.String())
	}
	return strings.Join(all, "; ")
}

// client is one for a test's own requests, which leaves nothing behind.
func client(t testing.TB) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }
