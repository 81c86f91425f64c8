package auth

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// refusal is an Attempt without its provider.
type refusal struct {
	reason, expected, got string
	unavailable           bool // the provider could not be reached
	unknownKey            bool // newer keys may verify the token
}

func (r *refusal) Error() string { return r.reason }

func refuse(format string, args ...any) *refusal {
	return &refusal{reason: fmt.Sprintf(format, args...)}
}

func unavailable(format string, args ...any) *refusal {
	return &refusal{reason: fmt.Sprintf(format, args...), unavailable: true}
}

// jwt is a token in the form of a JWT (RFC 7519). Nothing in it is verified.
type jwt struct {
	alg, kid, typ string
	claims        map[string]any
	// signed is the signing input: the first two parts as received (RFC 7515 section
	// 5.2).
	signed, signature []byte
	// fault makes the token invalid whatever its signature.
	fault *refusal
}

// issuer is the unverified iss, which selects the provider. It must have no other use
// before the signature is checked.
func (t *jwt) issuer() string {
	iss, _ := t.claims["iss"].(string)
	return iss
}

// parseToken parses a JWT: three base64url parts, of which the first is a JSON object.
// It returns nil for an opaque token.
func parseToken(token string) *jwt {
	first, rest, _ := strings.Cut(token, ".")
	second, third, ok := strings.Cut(rest, ".")
	if !ok || strings.Contains(third, ".") {
		return nil
	}
	header, ok1 := decodePart(first)
	payload, ok2 := decodePart(second)
	signature, ok3 := decodePart(third)
	if !ok1 || !ok2 || !ok3 {
		return nil
	}
	t := &jwt{signed: []byte(token[:len(first)+1+len(second)]), signature: signature}
	members, err := decodeObject(header)
	if err != nil {
		if !json.Valid(header) || !bytes.HasPrefix(bytes.TrimLeft(header, " \t\r\n"), []byte("{")) {
			return nil
		}
		t.fault = refuse("its header cannot be read: %v", err)
	} else {
		t.fault = t.readHeader(members)
	}
	if t.claims, err = decodeObject(payload); err != nil {
		t.fault = refuse("its claims cannot be read: %v", err)
	}
	return t
}

// decodePart decodes one of the parts. Only the canonical encoding is accepted (RFC
// 7515 section 2: no padding, no white space; RFC 4648 section 3.5: no stray bits).
func decodePart(part string) ([]byte, bool) {
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(part)
	return decoded, err == nil
}

// readHeader applies the rules on header members. Keys and URLs of keys in it (jwk,
// jku, x5c, x5u) are ignored: the token's author chose them (RFC 8725 section 3.10).
func (t *jwt) readHeader(members map[string]any) *refusal {
	// RFC 7515 section 4.1.11: a critical extension that is not supported makes the
	// token invalid. None is supported; a JWT must not use b64 (RFC 7797 section 7).
	for _, name := range []string{"crit", "b64"} {
		if _, present := members[name]; present {
			return refuse("its header needs an extension that is not supported (%s)", name)
		}
	}
	var ok [3]bool
	t.alg, ok[0] = textOf(members, "alg")
	t.kid, ok[1] = textOf(members, "kid")
	t.typ, ok[2] = textOf(members, "typ")
	if ok != [3]bool{true, true, true} {
		return refuse("its alg, kid or typ is not text")
	}
	if !accepts(t.alg) {
		return &refusal{reason: "the signature algorithm is not accepted", expected: algorithmNames, got: shorten(t.alg)}
	}
	return checkType(t.typ)
}

// textOf returns a member that must be text or absent.
func textOf(members map[string]any, name string) (text string, ok bool) {
	v, present := members[name]
	if !present {
		return "", true
	}
	text, ok = v.(string)
	return text, ok
}

// checkType: a token for another use must not pass for an access token (RFC 9068
// section 4, RFC 8725 section 3.11). Media types are case-insensitive, and
// "application/" may be omitted (RFC 7515 section 4.1.9).
func checkType(typ string) *refusal {
	switch strings.TrimPrefix(strings.ToLower(typ), "application/") {
	case "", "jwt", "at+jwt":
		return nil
	}
	return &refusal{reason: "it is a token of another type", expected: typeNames, got: shorten(typ)}
}

const typeNames = "at+jwt, JWT or none"

// wellFormed reports whether a token is a b64token (RFC 6750 section 2.1) of bounded
// length.
func wellFormed(token string) bool {
	if token == "" || len(token) > maxToken {
		return false
	}
	for i := range len(token) {
		if !tokenChars[token[i]] {
			return false
		}
	}
	return true
}

// tokenChars are the characters of b64token.
var tokenChars = func() (is [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=") {
		is[c] = true
	}
	return is
}()

// shorten cleans and cuts a value that comes from a token and is no secret.
func shorten(s string) string { return plaintext.Excerpt(s, maxValue) }
