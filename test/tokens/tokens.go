// Package tokens makes access tokens as honest providers do, and credentials that no
// resource server may accept. The tests of the registry and of the gateway share them.
package tokens

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// Issuer is a provider whose signing key the test has.
type Issuer struct {
	URL, Audience string
	// Key is an RSA or P-256 key.
	Key jose.JSONWebKey
}

// Claims are those of a good token, changed; nil removes one, and json.RawMessage can hold
// JSON that no Go value encodes to.
func (i Issuer) Claims(change map[string]any) string {
	now := time.Now().Unix()
	c := map[string]any{
		"iss": i.URL, "aud": i.Audience, "sub": "jo", "iat": now, "exp": now + 300,
		"jti": rand.Text(), // each token is one that was not received before
	}
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	text, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Token returns a token with the claims of a good one, changed.
func (i Issuer) Token(t testing.TB, change map[string]any) string {
	t.Helper()
	return Mint(t, i.Key, i.Claims(change))
}

// Mint signs claims with the header that an honest provider writes.
func Mint(t testing.TB, key jose.JSONWebKey, claims string) string {
	t.Helper()
	return Forge(t, key, fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":"at+jwt"}`, key.Algorithm, key.KeyID), claims)
}

// Forge signs a header and claims unchanged: only their content can be wrong.
func Forge(t testing.TB, key jose.JSONWebKey, header, claims string) string {
	t.Helper()
	input := B64(header) + "." + B64(claims)
	digest := sha256.Sum256([]byte(input))
	var signature []byte
	var err error
	switch k := key.Key.(type) {
	case *rsa.PrivateKey:
		signature, err = rsa.SignPKCS1v15(nil, k, crypto.SHA256, digest[:])
	case *ecdsa.PrivateKey:
		r, s, signErr := ecdsa.Sign(rand.Reader, k, digest[:])
		err = signErr
		if err == nil {
			signature = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
		}
	default:
		t.Fatalf("no token is signed with a %T", k)
	}
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + B64(string(signature))
}

// NewKey makes a private RSA key.
func NewKey(t testing.TB, id string) jose.JSONWebKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: key, KeyID: id, Algorithm: "RS256", Use: "sig"}
}

// B64 is the encoding of the parts of a JWT (RFC 7515 section 2).
func B64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
