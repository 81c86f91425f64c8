package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	_ "crypto/sha256" // SHA-256
	_ "crypto/sha512" // SHA-384, SHA-512
	"math/big"
	"slices"

	jose "github.com/go-jose/go-jose/v4"
)

// Signatures of JWTs (RFC 7518 section 3, RFC 8037 section 3.1) are checked with
// the standard library. go-jose parses the header again, also the keys in it that
// must not be used, and encodes the payload for each check: BenchmarkNewToken is 20
// to 50 % slower with it. The tests compare the results with go-jose's.

// algorithms are the accepted signature algorithms. "none" and HMAC are not among
// them (RFC 8725 sections 3.1, 3.2).
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

const algorithmNames = "RS, PS, ES or EdDSA"

func accepts(alg string) bool { return slices.Contains(algorithms, alg) }

// verify checks the signature with the given keys. bad reports that the signature
// was checked and is wrong.
func (t *jwt) verify(keys []jose.JSONWebKey) (bad bool, r *refusal) {
	tried := 0
	for i := range keys {
		if !fits(&keys[i], t.alg) {
			continue
		}
		if tried++; tried > maxTries {
			break
		}
		if checkSignature(t.alg, keys[i].Key, t.signed, t.signature) {
			return false, nil
		}
	}
	if tried == 0 {
		return false, &refusal{reason: "no key of the provider fits the token", got: shorten("kid " + t.kid + ", alg " + t.alg)}
	}
	return true, refuse("its signature is not valid")
}

// checkSignature reports whether signature is a signature of message with alg. The
// key must fit alg.
func checkSignature(alg string, key any, message, signature []byte) bool {
	if key, ok := key.(ed25519.PublicKey); ok {
		return ed25519.Verify(key, message, signature)
	}
	hash := crypto.SHA512
	switch alg[2:] {
	case "256":
		hash = crypto.SHA256
	case "384":
		hash = crypto.SHA384
	}
	h := hash.New()
	h.Write(message)
	digest := h.Sum(nil)
	switch key := key.(type) {
	case *rsa.PublicKey:
		if alg[0] == 'R' { // RFC 7518 section 3.3
			return rsa.VerifyPKCS1v15(key, hash, digest, signature) == nil
		}
		// RFC 7518 section 3.5: the salt is as long as the digest.
		return rsa.VerifyPSS(key, hash, digest, signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
	case *ecdsa.PublicKey:
		// RFC 7518 section 3.4: R and S, each as long as the curve's order.
		size := (key.Curve.Params().N.BitLen() + 7) / 8
		if len(signature) != 2*size {
			return false
		}
		return ecdsa.Verify(key, digest, new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:]))
	}
	return false
}
