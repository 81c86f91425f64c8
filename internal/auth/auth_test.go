package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
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

// idp is an identity provider over real HTTP: discovery, keys, introspection.
type idp struct {
	*httptest.Server
	mu       sync.Mutex
	keys     []jose.JSONWebKey
	active   map[string]map[string]any // opaque token -> introspection answer
	down     atomic.Bool
	hang     chan struct{}
	fetches  atomic.Int32
	asked    atomic.Int32
	lastAuth atomic.Value
}

func newIDP(t *testing.T) *idp {
	t.Helper()
	p := &idp{active: map[string]map[string]any{}, hang: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]string{"issuer": p.URL, "jwks_uri": p.URL + "/jwks"})
	})
	mux.HandleFunc("/jwks", func(w http.ResponseWriter, r *http.Request) {
		p.fetches.Add(1)
		p.lastAuth.Store(r.Header.Get("Authorization"))
		p.mu.Lock()
		defer p.mu.Unlock()
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: p.keys})
	})
	mux.HandleFunc("/introspect", func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		p.lastAuth.Store(r.Header.Get("Authorization"))
		p.mu.Lock()
		defer p.mu.Unlock()
		answer, ok := p.active[r.FormValue("token")]
		if !ok {
			answer = map[string]any{"active": false}
		}
		json.NewEncoder(w).Encode(answer)
	})
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// signer is a private key and the public half that an idp publishes.
type signer struct {
	alg jose.SignatureAlgorithm
	kid string
	key crypto.Signer
}

func newSigner(t *testing.T, alg jose.SignatureAlgorithm, kid string) *signer {
	t.Helper()
	var key crypto.Signer
	var err error
	switch alg {
	case jose.ES256:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.ES384:
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
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

func (s *signer) sign(t *testing.T, typ string, claims map[string]any) string {
	t.Helper()
	opts := (&jose.SignerOptions{}).WithHeader("kid", s.kid)
	if typ != "" {
		opts = opts.WithType(jose.ContentType(typ))
	}
	js, err := jose.NewSigner(jose.SigningKey{Algorithm: s.alg, Key: s.key}, opts)
	if err != nil {
		t.Fatal(err)
	}
	payload, _ := json.Marshal(claims)
	jws, err := js.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (p *idp) publish(signers ...*signer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = nil
	for _, s := range signers {
		p.keys = append(p.keys, s.public())
	}
}

func (p *idp) claims(change map[string]any) map[string]any {
	c := map[string]any{"iss": p.URL, "aud": "registry", "sub": "jo", "exp": time.Now().Add(time.Hour).Unix(), "scope": "a b"}
	for k, v := range change {
		if v == nil {
			delete(c, k)
		} else {
			c[k] = v
		}
	}
	return c
}

func (p *idp) provider(name string) Provider {
	return Provider{Name: name, IssuerURL: p.URL, Audience: "registry", AllowPrivateIP: true}
}

// clock can be moved.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

func newValidator(t *testing.T, c *clock, providers ...Provider) *Validator {
	t.Helper()
	if c == nil {
		c = &clock{}
	}
	v, err := NewValidator(providers, Options{
		Client: func(Provider) (*http.Client, error) { return &http.Client{Timeout: 2 * time.Second}, nil },
		Now:    c.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

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

func TestJWTsAreJudgedAsDecided(t *testing.T) {
	p := newIDP(t)
	s := newSigner(t, jose.RS256, "k1")
	p.publish(s)
	v := newValidator(t, nil, p.provider("main"))
	now := time.Now()
	for name, c := range map[string]struct {
		typ    string
		change map[string]any
		want   string // part of the reason; "" is accepted
	}{
		"a good token":                        {"", nil, ""},
		"typed as an access token":            {"at+jwt", nil, ""},
		"typed with a media type":             {"application/at+jwt", nil, ""},
		"typed JWT":                           {"JWT", nil, ""},
		"an ID token by type":                 {"id_token", nil, "another type"},
		"a DPoP proof":                        {"dpop+jwt", nil, "another type"},
		"a logout token":                      {"logout+jwt", nil, "another type"},
		"audience in a list":                  {"", map[string]any{"aud": []string{"x", "registry"}}, ""},
		"another audience":                    {"", map[string]any{"aud": "other"}, "audience does not match"},
		"audience in another case":            {"", map[string]any{"aud": "Registry"}, "audience does not match"},
		"no audience":                         {"", map[string]any{"aud": nil}, "audience does not match"},
		"issuer with a trailing slash":        {"", map[string]any{"iss": p.URL + "/"}, "another issuer"},
		"no issuer":                           {"", map[string]any{"iss": nil}, "another issuer"},
		"expired":                             {"", map[string]any{"exp": now.Add(-time.Minute).Unix()}, "has expired"},
		"expired within the leeway":           {"", map[string]any{"exp": now.Add(-10 * time.Second).Unix()}, ""},
		"no expiry":                           {"", map[string]any{"exp": nil}, "no expiry"},
		"expiry as text":                      {"", map[string]any{"exp": "tomorrow"}, "no expiry"},
		"not valid yet":                       {"", map[string]any{"nbf": now.Add(time.Minute).Unix()}, "not valid yet (nbf)"},
		"issued in the future":                {"", map[string]any{"iat": now.Add(time.Minute).Unix()}, "not valid yet (iat)"},
		"issued in the future, just a little": {"", map[string]any{"iat": now.Add(10 * time.Second).Unix()}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := v.Validate(t.Context(), s.sign(t, c.typ, p.claims(c.change)))
			if c.want == "" {
				if err != nil {
					t.Fatal(reasons(err))
				}
				if id.Subject != "jo" || id.Provider != "main" || !id.HasScope("b") || id.HasScope("c") {
					t.Errorf("identity %+v", id)
				}
				return
			}
			if err == nil || !strings.Contains(reasons(err), c.want) {
				t.Errorf("got %v", reasons(err))
			}
		})
	}
}

func TestEveryAcceptedAlgorithmIsAccepted(t *testing.T) {
	p := newIDP(t)
	for _, alg := range []jose.SignatureAlgorithm{jose.RS256, jose.RS512, jose.PS256, jose.ES256, jose.ES384, jose.EdDSA} {
		s := newSigner(t, alg, string(alg))
		p.publish(s)
		v := newValidator(t, nil, p.provider("main"))
		if _, err := v.Validate(t.Context(), s.sign(t, "", p.claims(nil))); err != nil {
			t.Errorf("%s: %s", alg, reasons(err))
		}
	}
}

func TestForgeriesAreRefused(t *testing.T) {
	p := newIDP(t)
	s := newSigner(t, jose.RS256, "k1")
	p.publish(s)
	v := newValidator(t, nil, p.provider("main"))
	good := s.sign(t, "", p.claims(nil))
	parts := strings.Split(good, ".")
	b64 := base64.RawURLEncoding.EncodeToString
	payload, _ := json.Marshal(p.claims(map[string]any{"sub": "root"}))

	// HS256 with the public key as the secret (RFC 8725 section 2.1).
	pub, _ := json.Marshal(s.public())
	hs, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: pub}, (&jose.SignerOptions{}).WithHeader("kid", "k1"))
	if err != nil {
		t.Fatal(err)
	}
	jws, _ := hs.Sign(payload)
	confused, _ := jws.CompactSerialize()

	forger := newSigner(t, jose.RS256, "k1")
	for name, token := range map[string]string{
		"no algorithm":            b64([]byte(`{"alg":"none"}`)) + "." + b64(payload) + ".",
		"None":                    b64([]byte(`{"alg":"None","kid":"k1"}`)) + "." + b64(payload) + "." + parts[2],
		"HMAC by the public key":  confused,
		"changed claims":          parts[0] + "." + b64(payload) + "." + parts[2],
		"no signature":            parts[0] + "." + parts[1] + ".",
		"another's key, same kid": forger.sign(t, "", p.claims(nil)),
		"a key in the header":     b64([]byte(`{"alg":"RS256","jwk":`+string(pub)+`}`)) + "." + b64(payload) + "." + parts[2],
		"critical extension":      b64([]byte(`{"alg":"RS256","kid":"k1","crit":["x"],"x":1}`)) + "." + parts[1] + "." + parts[2],
		"claims that are a list":  forger.sign(t, "", nil),
		"two parts":               parts[0] + "." + parts[1],
		"garbage":                 "garbage",
		"too long":                strings.Repeat("a", maxToken+1),
		"empty":                   "",
	} {
		if id, err := v.Validate(t.Context(), token); err == nil {
			t.Errorf("%s: accepted as %+v", name, id)
		} else if token != "" && (strings.Contains(reasons(err), token) || len(parts[2]) > 0 && strings.Contains(reasons(err), parts[2])) {
			t.Errorf("%s: the refusal repeats the token", name)
		}
	}
}

func TestAKeyMustFitItsUse(t *testing.T) {
	p := newIDP(t)
	s := newSigner(t, jose.RS256, "k1")
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]jose.JSONWebKey{
		"an encryption key":     {Key: s.key.Public(), KeyID: "k1", Use: "enc"},
		"another algorithm":     {Key: s.key.Public(), KeyID: "k1", Algorithm: "PS256"},
		"a short RSA key":       {Key: small.Public(), KeyID: "k1"},
		"a symmetric key":       {Key: []byte("secret-secret-secret-secret-1234"), KeyID: "k1"},
		"a key of another kind": newSigner(t, jose.ES256, "k1").public(),
	} {
		p.mu.Lock()
		p.keys = []jose.JSONWebKey{key}
		p.mu.Unlock()
		v := newValidator(t, nil, p.provider("main"))
		if _, err := v.Validate(t.Context(), s.sign(t, "", p.claims(nil))); err == nil {
			t.Errorf("%s was used", name)
		}
	}
}

func TestRotatedKeysAreFetchedOnceAndTheCacheForgetsTheOld(t *testing.T) {
	p := newIDP(t)
	old, next := newSigner(t, jose.ES256, "old"), newSigner(t, jose.ES256, "new")
	p.publish(old)
	c := &clock{}
	v := newValidator(t, c, p.provider("main"))
	oldToken := old.sign(t, "", p.claims(nil))
	if _, err := v.Validate(t.Context(), oldToken); err != nil {
		t.Fatal(reasons(err))
	}
	p.publish(next)
	c.advance(refetchEvery)
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

func TestUnknownKeyIDsCauseBoundedFetches(t *testing.T) {
	p := newIDP(t)
	p.publish(newSigner(t, jose.ES256, "k1"))
	v := newValidator(t, nil, p.provider("main"))
	stranger := newSigner(t, jose.ES256, "x")
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			s := *stranger
			s.kid = fmt.Sprintf("k-%d", i)
			if _, err := v.Validate(context.Background(), s.sign(t, "", p.claims(nil))); err == nil {
				t.Error("accepted")
			}
		})
	}
	wg.Wait()
	if n := p.fetches.Load(); n > 2 {
		t.Errorf("100 unknown key ids caused %d fetches", n)
	}
}

func TestAnOutageServesKnownKeysForAWhile(t *testing.T) {
	p := newIDP(t)
	s := newSigner(t, jose.ES256, "k1")
	p.publish(s)
	c := &clock{}
	v := newValidator(t, c, p.provider("main"))
	token := func() string {
		return s.sign(t, "", p.claims(map[string]any{"exp": c.now().Add(time.Hour).Unix(), "jti": fmt.Sprint(c.now())}))
	}
	if _, err := v.Validate(t.Context(), token()); err != nil {
		t.Fatal(reasons(err))
	}
	p.down.Store(true)
	c.advance(keysFresh + time.Minute)
	if _, err := v.Validate(t.Context(), token()); err != nil {
		t.Error("an outage refused a known key: ", reasons(err))
	}
	c.advance(keysStale)
	_, err := v.Validate(t.Context(), token())
	if err == nil || !strings.Contains(reasons(err), p.URL) {
		t.Errorf("keys of %s ago: %s; want a refusal that names the URL", keysStale, reasons(err))
	}
	p.down.Store(false)
	c.advance(refetchEvery)
	if _, err := v.Validate(t.Context(), token()); err != nil {
		t.Error("after the outage: ", reasons(err))
	}
}

func TestADeadProviderDelaysNoOther(t *testing.T) {
	hang := make(chan struct{})
	dead := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer dead.Close()
	defer close(hang)
	p := newIDP(t)
	s := newSigner(t, jose.ES256, "k1")
	p.publish(s)
	v := newValidator(t, nil, Provider{Name: "dead", IssuerURL: dead.URL, Audience: "registry"}, p.provider("main"))
	start := time.Now()
	if _, err := v.Validate(t.Context(), s.sign(t, "", p.claims(nil))); err != nil {
		t.Fatal(reasons(err))
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %s beside a dead provider", took)
	}
}

func TestOpaqueTokensAreIntrospectedAsDecided(t *testing.T) {
	p := newIDP(t)
	exp := time.Now().Add(time.Hour).Unix()
	provider := p.provider("main")
	provider.IntrospectionURL = p.URL + "/introspect"
	v := newValidator(t, nil, provider)
	for name, c := range map[string]struct {
		answer map[string]any
		want   string
	}{
		"active":                   {map[string]any{"active": true, "aud": "registry", "exp": exp, "iss": p.URL, "sub": "jo", "groups": []string{"x"}}, ""},
		"without iss and exp":      {map[string]any{"active": true, "aud": []string{"registry"}}, ""},
		"inactive":                 {map[string]any{"active": false, "aud": "registry"}, "not active"},
		"active as text":           {map[string]any{"active": "true", "aud": "registry"}, "not active"},
		"active as a number":       {map[string]any{"active": 1, "aud": "registry"}, "not active"},
		"without an audience":      {map[string]any{"active": true}, "audience"},
		"for another audience":     {map[string]any{"active": true, "aud": "x"}, "audience"},
		"of another issuer":        {map[string]any{"active": true, "aud": "registry", "iss": "https://x"}, "issuer"},
		"expired":                  {map[string]any{"active": true, "aud": "registry", "exp": 1}, "expired"},
		"expiry of the wrong type": {map[string]any{"active": true, "aud": "registry", "exp": true}, "no expiry"},
	} {
		t.Run(name, func(t *testing.T) {
			token := "opaque-" + strings.ReplaceAll(name, " ", "-")
			p.mu.Lock()
			p.active[token] = c.answer
			p.mu.Unlock()
			id, err := v.Validate(t.Context(), token)
			if c.want == "" {
				if err != nil {
					t.Fatal(reasons(err))
				}
				if name == "active" && len(stringsOf(id.Claims["groups"])) != 1 {
					t.Errorf("claims were lost: %v", id.Claims)
				}
				before := p.asked.Load()
				if _, err := v.Validate(t.Context(), token); err != nil || p.asked.Load() != before {
					t.Error("the verdict was not cached")
				}
				return
			}
			if err == nil || !strings.Contains(reasons(err), c.want) {
				t.Errorf("got %s", reasons(err))
			}
		})
	}
}

func TestAJWTThatFailsIsIntrospectedAtItsOwnIssuerOnly(t *testing.T) {
	p, other := newIDP(t), newIDP(t)
	s := newSigner(t, jose.ES256, "k1") // published nowhere
	p.publish(newSigner(t, jose.ES256, "k2"))
	a, b := other.provider("other"), p.provider("main")
	a.IntrospectionURL, b.IntrospectionURL = other.URL+"/introspect", p.URL+"/introspect"
	v := newValidator(t, nil, a, b)
	token := s.sign(t, "", p.claims(nil))
	p.active[token] = map[string]any{"active": true, "aud": "registry"}
	if id, err := v.Validate(t.Context(), token); err != nil || id.Provider != "main" {
		t.Errorf("got %+v, %s", id, reasons(err))
	}
	if other.asked.Load() != 0 {
		t.Error("a provider of another issuer saw the token")
	}
}

func TestDiscoveryMustBeTheIssuersOwn(t *testing.T) {
	evil := newIDP(t)
	evil.publish(newSigner(t, jose.ES256, "k1"))
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/openid-configuration") {
			json.NewEncoder(w).Encode(map[string]string{"issuer": evil.URL, "jwks_uri": evil.URL + "/jwks"})
		}
	}))
	defer front.Close()
	v := newValidator(t, nil, Provider{Name: "a", IssuerURL: front.URL, Audience: "registry"})
	s := newSigner(t, jose.ES256, "k1")
	claims := evil.claims(map[string]any{"iss": front.URL})
	_, err := v.Validate(t.Context(), s.sign(t, "", claims))
	if err == nil || !strings.Contains(reasons(err), "metadata of issuer") {
		t.Errorf("got %s", reasons(err))
	}
	if evil.fetches.Load() != 0 {
		t.Error("keys were fetched from another issuer")
	}
}

func TestConfigurationFaultsAreAllReported(t *testing.T) {
	_, err := NewValidator([]Provider{
		{Name: "a", IssuerURL: "http://example.com", Audience: ""},
		{Name: "", IssuerURL: "https://ok.example", Audience: "x", ClientSecretFile: "/f"},
	}, Options{Client: func(Provider) (*http.Client, error) { return http.DefaultClient, nil }})
	for _, want := range []string{"issuerUrl", "HTTPS", "audience", "name", "clientId"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %s", err, want)
		}
	}
}
