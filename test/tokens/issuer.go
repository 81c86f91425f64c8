package tokens

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	jose "github.com/go-jose/go-jose/v4"
)

// Start starts a provider over HTTP that publishes its key, until the test ends.
func Start(t testing.TB, audience string) Issuer {
	t.Helper()
	i := Issuer{Audience: audience, Key: NewKey(t, "k1")}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	i.URL = server.URL
	answer := func(v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) }
	}
	mux.Handle("/.well-known/openid-configuration", answer(map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/jwks"}))
	mux.Handle("/jwks", answer(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.Key.Public()}}))
	return i
}
