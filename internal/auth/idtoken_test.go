package auth

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/toolhaven/toolhaven/internal/oauth"
)

// newIDTokens verifies tokens of p for the client "gateway".
func newIDTokens(t *testing.T, p *issuer, now func() time.Time) *IDTokens {
	t.Helper()
	v := NewIDTokens(IDTokenConfig{
		Issuer: p.URL, ClientID: "gateway", Now: now, Get: oauth.NewSender(client(t)).Get,
		KeysURL: func(context.Context) (string, error) { return p.URL + jwksPath, nil },
	})
	t.Cleanup(v.keys.tasks.close)
	return v
}

func (p *issuer) idClaims(change map[string]any) map[string]any {
	base := map[string]any{"aud": "gateway", "iat": time.Now().Unix(), "scope": nil}
	maps.Copy(base, change)
	return p.claims(base)
}

func half(sum []byte) string { return b64(string(sum[:len(sum)/2])) }

func TestIDTokens_Claims(t *testing.T) {
	p := newIssuer(t)
	key := newSigner(t, jose.ES256, "a")
	p.publish(key)
	v := newIDTokens(t, p, nil)
	const access = "the-access-token"
	sum := sha256.Sum256([]byte(access))
	for _, row := range []struct {
		rule   string // of OpenID Connect Core 1.0
		change map[string]any
		fault  string // "": it is valid
	}{
		{"3.1.3.7", nil, ""},
		{"3.1.3.7-2 another issuer", map[string]any{"iss": "https://other.example"}, "issuer does not match"},
		{"3.1.3.7-2 a slash more", map[string]any{"iss": p.URL + "/"}, "issuer does not match"},
		{"3.1.3.7-2 no issuer", map[string]any{"iss": nil}, "issuer does not match"},
		{"3.1.3.7-3 another client", map[string]any{"aud": "other"}, "audience does not match"},
		{"3.1.3.7-3 no audience", map[string]any{"aud": nil}, "audience does not match"},
		{"3.1.3.7-3 a list of one", map[string]any{"aud": []string{"gateway"}}, ""},
		{"3.1.3.7-4 several without azp", map[string]any{"aud": []string{"gateway", "other"}}, "azp"},
		{"3.1.3.7-4 several with azp", map[string]any{"aud": []string{"other", "gateway"}, "azp": "gateway"}, ""},
		{"3.1.3.7-5 azp of another client", map[string]any{"azp": "other"}, "azp"},
		{"3.1.3.7-5 azp is no text", map[string]any{"azp": 7}, "azp"},
		{"3.1.3.7-9 expired", map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}, "expired"},
		{"3.1.3.7-9 no expiry", map[string]any{"exp": nil}, "no expiry"},
		{"2 no iat", map[string]any{"iat": nil}, "no iat"},
		{"2 issued in the future", map[string]any{"iat": time.Now().Add(time.Hour).Unix()}, "iat"},
		{"2 no subject", map[string]any{"sub": nil}, "no subject"},
		{"2 empty subject", map[string]any{"sub": ""}, "no subject"},
		{"2 a number as subject", map[string]any{"sub": 7}, "no subject"},
		{"2 a long subject", map[string]any{"sub": strings.Repeat("x", 256)}, "255"},
		{"3.1.3.8 at_hash", map[string]any{"at_hash": half(sum[:])}, ""},
		{"3.1.3.8 at_hash of another token", map[string]any{"at_hash": half(sum[1:])}, "at_hash"},
		{"3.1.3.8 at_hash is no text", map[string]any{"at_hash": 7}, "at_hash"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			claims, err := v.Verify(t.Context(), key.sign(t, "JWT", p.idClaims(row.change)), access)
			if row.fault == "" {
				if err != nil || claims["sub"] != "jo" {
					t.Errorf("%v, %v", claims, err)
				}
				return
			}
			if err == nil || errors.Is(err, ErrKeys) || !strings.Contains(err.Error(), row.fault) {
				t.Errorf("got %v, want %q", err, row.fault)
			}
		})
	}
}

func TestIDTokens_Signature(t *testing.T) {
	p := newIssuer(t)
	key, foreign := newSigner(t, jose.RS256, "a"), newSigner(t, jose.RS256, "a")
	p.publish(key)
	v := newIDTokens(t, p, nil)
	payload, _ := json.Marshal(p.idClaims(nil))
	good := key.sign(t, "", p.idClaims(nil))
	for _, row := range []struct{ rule, token, fault string }{
		{"RFC 8725 3.1: none", b64(`{"alg":"none"}`) + "." + b64(string(payload)) + ".", "algorithm"},
		{"RFC 8725 3.1: HMAC", hmacToken(`{"alg":"HS256","kid":"a"}`, string(payload), []byte("secret")), "algorithm"},
		{"RFC 7515 5.2: another key", foreign.sign(t, "", p.idClaims(nil)), "signature is not valid"},
		{"RFC 7515 4.1.4: unknown key", newSigner(t, jose.RS256, "b").sign(t, "", p.idClaims(nil)), "key id"},
		{"RFC 8725 3.1: key of another kind", newSigner(t, jose.ES256, "a").sign(t, "", p.idClaims(nil)), "no key of the provider fits"},
		{"RFC 9068 2.1: an access token", key.sign(t, "at+jwt", p.idClaims(nil)), "another type"},
		{"RFC 7519 7.2: opaque", "opaque", "not a JWT"},
		{"RFC 7519 7.2: empty", "", "ID token"},
		{"too long", strings.Repeat("a", maxToken+1), "too long"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			_, err := v.Verify(t.Context(), row.token, "")
			if err == nil || errors.Is(err, ErrKeys) || !strings.Contains(err.Error(), row.fault) {
				t.Errorf("got %v, want %q", err, row.fault)
			}
		})
	}
	if _, err := v.Verify(t.Context(), good, ""); err != nil {
		t.Error(err)
	}
}

// OpenID Connect Core 1.0 section 3.1.3.8, with the hash of each algorithm.
func TestIDTokens_AccessHashOfEachAlgorithm(t *testing.T) {
	const access = "the-access-token"
	s256, s384, s512 := sha256.Sum256([]byte(access)), sha512.Sum384([]byte(access)), sha512.Sum512([]byte(access))
	for alg, sum := range map[jose.SignatureAlgorithm][]byte{
		jose.RS256: s256[:], jose.ES384: s384[:], jose.ES512: s512[:], jose.PS256: s256[:], jose.EdDSA: s512[:],
	} {
		t.Run(string(alg), func(t *testing.T) {
			p := newIssuer(t)
			key := newSigner(t, alg, "a")
			p.publish(key)
			v := newIDTokens(t, p, nil)
			if _, err := v.Verify(t.Context(), key.sign(t, "", p.idClaims(map[string]any{"at_hash": half(sum)})), access); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestIDTokens_Keys(t *testing.T) {
	p := newIssuer(t)
	first, second := newSigner(t, jose.ES256, "1"), newSigner(t, jose.ES256, "2")
	p.publish(first)
	p.down.Store(true)
	clock := stopped()
	v := newIDTokens(t, p, clock.now)
	verify := func(key *signer) error {
		_, err := v.Verify(t.Context(), key.sign(t, "", p.idClaims(nil)), "")
		return err
	}
	for range 3 { // within one second: one request
		if err := verify(first); !errors.Is(err, ErrKeys) {
			t.Fatalf("while the issuer is down: %v", err)
		}
	}
	if n := p.fetches.Load(); n != 1 {
		t.Errorf("%d requests for keys", n)
	}
	p.down.Store(false)
	clock.advance(keysRetry)
	if err := verify(first); err != nil {
		t.Fatalf("after the outage: %v", err)
	}
	p.publish(first, second)
	if err := verify(second); err != nil {
		t.Errorf("a new key: %v", err)
	}
	// The keys are held during another outage, and replaced after it.
	p.down.Store(true)
	clock.advance(keysFresh)
	if err := verify(first); err != nil {
		t.Errorf("with held keys: %v", err)
	}
	p.down.Store(false)
	p.publish(second)
	clock.advance(keysRetryMax)
	if err := verify(first); err == nil || errors.Is(err, ErrKeys) {
		t.Errorf("with a withdrawn key: %v", err)
	}
	p.serve(jwksPath, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"keys":7}`)) })
	clock.advance(2 * keysStale)
	if err := verify(second); !errors.Is(err, ErrKeys) {
		t.Errorf("with no key set: %v", err)
	}
}
