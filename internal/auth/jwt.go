package auth

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// algorithms that sign access tokens here. "none" and HMAC are not among them
// (RFC 8725 sections 3.1, 3.2).
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// minRSABits: RFC 7518 section 3.3.
const minRSABits = 2048

// looksLikeJWT: three base64url parts whose first is a JSON object. Everything
// else is opaque.
func looksLikeJWT(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	header, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil || !json.Valid(header) || !bytes.HasPrefix(bytes.TrimLeft(header, " \t\r\n"), []byte("{")) {
		return false
	}
	for _, part := range parts[1:] {
		if _, err := base64.RawURLEncoding.DecodeString(part); err != nil {
			return false
		}
	}
	return true
}

// unverifiedIssuer reads iss to choose a provider. Nothing else may rest on it.
func unverifiedIssuer(token string) string {
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		return ""
	}
	var c struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(payload, &c) != nil {
		return ""
	}
	return c.Issuer
}

// refusal is an Attempt without its provider.
type refusal struct {
	reason, expected, got string
	unavailable           bool // the provider could not be asked
	badSignature          bool
}

func (r *refusal) Error() string { return r.reason }

func refuse(format string, args ...any) *refusal {
	return &refusal{reason: fmt.Sprintf(format, args...)}
}

// parseJWT reads the envelope and checks what must hold before any key is
// looked for: the algorithm and the declared type.
func parseJWT(token string) (*jose.JSONWebSignature, error) {
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		var header struct{ Alg, Typ string }
		if raw, decodeErr := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0]); decodeErr == nil {
			_ = json.Unmarshal(raw, &header) // for the message only
		}
		if !slices.Contains(algorithms, jose.SignatureAlgorithm(header.Alg)) {
			return nil, &refusal{reason: "the signature algorithm is not accepted", expected: "RS, PS, ES or EdDSA", got: shorten(header.Alg)}
		}
		return nil, refuse("it is not a well-formed JWT")
	}
	typ, _ := jws.Signatures[0].Protected.ExtraHeaders[jose.HeaderType].(string)
	// RFC 9068 section 4, and RFC 8725 section 3.11: a token made for another
	// use must not pass for an access token.
	switch strings.TrimPrefix(strings.ToLower(typ), "application/") {
	case "", "jwt", "at+jwt":
		return jws, nil
	default:
		return nil, &refusal{reason: "it is a token of another type", expected: "at+jwt, JWT or none", got: shorten(typ)}
	}
}

// fits reports whether key may verify alg: its own alg, use and kind agree
// (RFC 7517 section 4, RFC 8725 section 3.1).
func fits(key *jose.JSONWebKey, alg string) bool {
	if !key.IsPublic() || !key.Valid() {
		return false
	}
	if key.Use != "" && key.Use != "sig" || key.Algorithm != "" && key.Algorithm != alg {
		return false
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		return (strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")) && k.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey:
		want := map[string]int{"ES256": 256, "ES384": 384, "ES512": 521}[alg]
		return want == k.Curve.Params().BitSize
	case ed25519.PublicKey:
		return alg == string(jose.EdDSA)
	default:
		return false
	}
}

// verify checks the signature with the keys given and returns the claims.
func verify(jws *jose.JSONWebSignature, keys []jose.JSONWebKey) (map[string]any, error) {
	if len(keys) == 0 {
		return nil, refuse("no key of the provider fits the token")
	}
	for i := range keys {
		payload, err := jws.Verify(keys[i].Key)
		if errors.Is(err, jose.ErrCryptoFailure) {
			continue
		}
		if err != nil {
			return nil, refuse("its header asks for something that is not understood")
		}
		return decodeClaims(payload)
	}
	r := refuse("its signature is not valid")
	r.badSignature = true
	return nil, r
}

func decodeClaims(payload []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber()
	var claims map[string]any
	if err := dec.Decode(&claims); err != nil || claims == nil || dec.More() {
		return nil, refuse("its claims are not a JSON object")
	}
	return claims, nil
}

// checkClaims applies the rules common to every token of p. introspected tokens
// may leave out exp and iss: the provider's own answer vouches for them (RFC
// 7662 section 2.2).
func checkClaims(claims map[string]any, p *Provider, now time.Time, leeway time.Duration, introspected bool) (expires time.Time, err error) {
	iss, isString := claims["iss"].(string)
	_, present := claims["iss"]
	if (present || !introspected) && (!isString || iss != p.IssuerURL) {
		return expires, &refusal{reason: "the issuer does not match", expected: p.IssuerURL, got: shorten(iss)}
	}
	audiences := stringsOf(claims["aud"])
	if !slices.Contains(audiences, p.Audience) {
		return expires, &refusal{reason: "the audience does not match", expected: p.Audience, got: shorten(strings.Join(audiences, " "))}
	}
	exp, present, ok := timeOf(claims, "exp")
	switch {
	case !ok || !present && !introspected:
		return expires, refuse("it has no expiry that can be read")
	case present && !now.Before(exp.Add(leeway)):
		return expires, &refusal{reason: "it has expired", expected: "after " + now.UTC().Format(time.RFC3339), got: exp.UTC().Format(time.RFC3339)}
	}
	for _, name := range []string{"nbf", "iat"} { // RFC 7519 sections 4.1.5, 4.1.6
		t, present, ok := timeOf(claims, name)
		if !ok || present && now.Add(leeway).Before(t) {
			return expires, refuse("it is not valid yet (%s)", name)
		}
	}
	if present {
		expires = exp
	}
	return expires, nil
}

// timeOf reads a NumericDate (RFC 7519 section 2).
func timeOf(claims map[string]any, name string) (t time.Time, present, ok bool) {
	v, present := claims[name]
	if !present {
		return t, false, true
	}
	n, isNumber := v.(json.Number)
	if !isNumber {
		return t, true, false
	}
	f, err := n.Float64()
	// Beyond this a float64 of seconds no longer means anything as a date.
	if err != nil || f < 0 || f > 1<<40 {
		return t, true, false
	}
	return time.Unix(int64(f), 0), true, true
}

// stringsOf is a claim that is a string or an array of strings.
func stringsOf(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		out := make([]string, 0, len(v))
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// scopesOf reads scope (RFC 8693 section 4.2, a string with blanks) or scp, the
// spelling of some providers (a string or an array).
func scopesOf(claims map[string]any) []string {
	for _, name := range []string{"scope", "scp"} {
		if s, ok := claims[name].(string); ok {
			return strings.Fields(s)
		}
		if list := stringsOf(claims[name]); len(list) > 0 {
			return list
		}
	}
	return nil
}

// shorten bounds a value that comes from a token and is not a secret.
func shorten(s string) string {
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}
