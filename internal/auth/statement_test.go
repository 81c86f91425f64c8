package auth

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

func TestStatement(t *testing.T) {
	p := newIssuer(t)
	key, foreign := newSigner(t, jose.ES256, "a"), newSigner(t, jose.ES256, "a")
	p.publish(key)
	v := newIDTokens(t, p, nil)
	claims := func(change map[string]any) map[string]any {
		c := map[string]any{"iss": p.URL, "client_name": "App", "redirect_uris": []string{"https://app.example/"}}
		maps.Copy(c, change)
		return c
	}
	for _, row := range []struct{ rule, token, fault string }{
		{"RFC 7591 2.3", key.sign(t, "JWT", claims(nil)), ""},
		{"RFC 7591 2.3: for this server", key.sign(t, "", claims(map[string]any{"aud": "https://as.example", "exp": time.Now().Add(time.Hour).Unix()})), ""},
		{"RFC 7591 2.3: another issuer", key.sign(t, "", claims(map[string]any{"iss": "https://other.example"})), "issuer does not match"},
		{"RFC 7591 2.3: no issuer", key.sign(t, "", claims(map[string]any{"iss": nil})), "issuer does not match"},
		{"RFC 7519 4.1.3: for another server", key.sign(t, "", claims(map[string]any{"aud": "gateway"})), "audience does not match"},
		{"RFC 7519 4.1.4: expired", key.sign(t, "", claims(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})), "expired"},
		{"RFC 7519 4.1.5: not yet valid", key.sign(t, "", claims(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()})), "nbf"},
		{"RFC 8725 3.11: an access token", key.sign(t, "at+jwt", claims(nil)), "another type"},
		{"RFC 8725 3.11: an ID token", key.sign(t, "JWT", p.idClaims(nil)), "audience does not match"},
		{"RFC 7591 2.3: another key", foreign.sign(t, "", claims(nil)), "signature is not valid"},
		{"RFC 7591 2.3: no signature", b64(`{"alg":"none"}`) + "." + b64(`{"iss":"`+p.URL+`"}`) + ".", "algorithm"},
		{"no JWT", "x", "not a JWT"},
		{"too long", strings.Repeat("a", maxToken+1), "too long"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			got, err := v.Statement(t.Context(), row.token, "https://as.example")
			if row.fault == "" {
				if err != nil || got["client_name"] != "App" {
					t.Errorf("%v, %v", got, err)
				}
				return
			}
			if err == nil || errors.Is(err, ErrKeys) || !strings.Contains(err.Error(), row.fault) {
				t.Errorf("got %v, want %q", err, row.fault)
			}
		})
	}
}
