package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jose "github.com/go-jose/go-jose/v4"
)

// decodeKeys reads a JWK set (RFC 7517 section 5). Keys that cannot be read or
// must not be used are left out, as section 5 requires; skipped is their number.
func decodeKeys(body []byte) (keys []jose.JSONWebKey, skipped int, err error) {
	set, err := decodeObject(body)
	if err != nil {
		return nil, 0, fmt.Errorf("it is not a JWK set: %w", err)
	}
	members, ok := set["keys"].([]any)
	if !ok {
		return nil, 0, errors.New("it is not a JWK set: it has no list of keys")
	}
	if len(members) > maxKeys {
		return nil, 0, fmt.Errorf("it has more than %d keys", maxKeys)
	}
	for _, member := range members {
		if key, ok := decodeKey(member); ok {
			keys = append(keys, key)
		} else {
			skipped++
		}
	}
	if len(keys) == 0 {
		return nil, skipped, errors.New("it has no public key that can be used")
	}
	return keys, skipped, nil
}

// decodeKey decodes a public signature key. A published private key proves nothing,
// and with a symmetric key every verifier could sign.
func decodeKey(member any) (key jose.JSONWebKey, ok bool) {
	object, ok := member.(map[string]any)
	if !ok {
		return key, false
	}
	// RFC 7518 sections 6.2.2, 6.3.2, 6.4, RFC 8037 section 2.
	for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"} {
		if _, present := object[private]; present {
			return key, false
		}
	}
	if !meantForVerifying(object["key_ops"]) {
		return key, false
	}
	text, err := json.Marshal(object)
	if err != nil || key.UnmarshalJSON(text) != nil || !key.Valid() || !key.IsPublic() {
		return key, false
	}
	if key.Use != "" && key.Use != "sig" { // RFC 7517 section 4.2
		return key, false
	}
	for _, alg := range algorithms {
		if fits(&key, alg) {
			return key, true
		}
	}
	return key, false
}

// meantForVerifying: key_ops, if present, has "verify" (RFC 7517 section 4.3).
func meantForVerifying(ops any) bool {
	if ops == nil {
		return true
	}
	list, _ := ops.([]any)
	for _, op := range list {
		if op == "verify" {
			return true
		}
	}
	return false
}

// fits reports whether key may verify alg: its own alg and its kind agree (RFC
// 7517 section 4.4, RFC 8725 section 3.1).
func fits(key *jose.JSONWebKey, alg string) bool {
	if key.Algorithm != "" && key.Algorithm != alg {
		return false
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		bits := k.N.BitLen()
		return (strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")) && bits >= minRSABits && bits <= maxRSABits
	case *ecdsa.PublicKey:
		switch k.Curve { // RFC 7518 section 3.4
		case elliptic.P256():
			return alg == "ES256"
		case elliptic.P384():
			return alg == "ES384"
		case elliptic.P521():
			return alg == "ES512"
		}
	case ed25519.PublicKey: // RFC 8037 section 3.1
		return alg == "EdDSA" && len(k) == ed25519.PublicKeySize
	}
	return false
}
