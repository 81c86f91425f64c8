package main

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// newIssuer is an identity provider in this process: a key set, and a token. It
// serves what more is given, too.
func newIssuer(more map[string]http.Handler) (*httptest.Server, string, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, "", err
	}
	public := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "bench", Algorithm: "RS256", Use: "sig"}}}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	for pattern, handler := range more {
		mux.Handle(pattern, handler)
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": server.URL, "jwks_uri": server.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(public) })
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "bench").WithType("at+jwt"))
	if err != nil {
		return nil, "", err
	}
	claims, err := json.Marshal(map[string]any{"iss": server.URL, "aud": resource, "sub": "bench", "exp": time.Now().Add(time.Hour).Unix(), "scope": "mcp-registry:read"})
	if err != nil {
		return nil, "", err
	}
	jws, err := signer.Sign(claims)
	if err != nil {
		return nil, "", err
	}
	token, err := jws.CompactSerialize()
	return server, token, err
}
