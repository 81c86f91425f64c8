package upstream

import (
	"errors"
	"testing"
)

func TestStatement(t *testing.T) {
	f := newFake(t)
	oidc := newProvider(t, f.oidc())
	statement := sign(f.key, "k", object{"iss": f.URL, "client_name": "App"})
	claims, known, err := oidc.Statement(t.Context(), statement, "https://as.example")
	if err != nil || !known || claims["client_name"] != "App" {
		t.Errorf("%v, %t, %v", claims, known, err)
	}
	if _, known, err := oidc.Statement(t.Context(), sign(f.key, "k", object{"iss": "https://vendor.example"}), ""); known || err != nil {
		t.Errorf("another issuer: %t, %v", known, err)
	}
	if _, known, err := oidc.Statement(t.Context(), "x", ""); known || err != nil {
		t.Errorf("no JWT: %t, %v", known, err)
	}
	if _, known, err := newProvider(t, f.oauth2()).Statement(t.Context(), statement, ""); known || err != nil {
		t.Errorf("a provider without keys: %t, %v", known, err)
	}
	f.Close()
	if _, known, err := newProvider(t, f.oidc()).Statement(t.Context(), statement, ""); !known || !errors.Is(err, ErrUnavailable) {
		t.Errorf("keys that cannot be fetched: %t, %v", known, err)
	}
}
