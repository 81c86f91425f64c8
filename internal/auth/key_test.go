package auth

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	jose "github.com/go-jose/go-jose/v4"
)

func jwkText(t testing.TB, key any, change map[string]any) string {
	t.Helper()
	text, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatal(err)
	}
	for name, v := range change {
		if v == nil {
			delete(members, name)
		} else {
			members[name] = v
		}
	}
	text, _ = json.Marshal(members)
	return string(text)
}

// Key sets of a hostile or careless provider, and a token that the first key of
// each would verify.
func TestKeySet_Hostile(t *testing.T) {
	p := newIssuer(t)
	s := newSigner(t, jose.RS256, "k1")
	other := newSigner(t, jose.RS256, "k1")
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	good := jwkText(t, s.public(), nil)
	private := jwkText(t, jose.JSONWebKey{Key: s.key, KeyID: "k1"}, nil)
	shortSigner := &signer{alg: jose.RS256, kid: "k1", key: short}
	long := jose.JSONWebKey{Key: &rsa.PublicKey{N: new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), 20_000), big.NewInt(1)), E: 65537}, KeyID: "k1"}
	set := func(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }
	type change = map[string]any
	for _, c := range []struct {
		rule, name, set string
		signer          *signer
		want            string
	}{
		{"RFC 7517 5", "a good set", set(good), s, ""},
		{"RFC 7517 4", "unknown members", set(jwkText(t, s.public(), change{"x-ours": change{"a": 1}})), s, ""},
		{"RFC 7517 4.4", "no alg, no use", set(jwkText(t, s.public(), change{"alg": nil, "use": nil})), s, ""},
		{"RFC 7517 4.3", "meant for verifying", set(jwkText(t, s.public(), change{"use": nil, "key_ops": []string{"verify"}})), s, ""},
		{"RFC 7517 4.3", "meant for encrypting", set(jwkText(t, s.public(), change{"use": nil, "key_ops": []string{"encrypt"}})), s, "no public key"},
		{"RFC 7517 4.2", "an encryption key", set(jwkText(t, s.public(), change{"use": "enc"})), s, "no public key"},
		{"RFC 7517 4.4", "for another algorithm", set(jwkText(t, s.public(), change{"alg": "PS256"})), s, "no key"},
		{"RFC 7517 4.4", "for encryption by alg", set(jwkText(t, s.public(), change{"alg": "RSA-OAEP"})), s, "no public key"},
		{"RFC 7518 3.3", "an RSA key of 1024 bits", set(jwkText(t, shortSigner.public(), nil)), shortSigner, "no public key"},
		{"bounds", "an RSA key of 20,000 bits", set(jwkText(t, long, nil)), s, "no public key"},
		{"RFC 7518 6.3.2", "a private key", set(private), s, "no public key"},
		{"RFC 7518 6.3.2", "a private key beside a good one", set(private, good), s, ""},
		{"RFC 8725 2.1", "a symmetric key", set(`{"kty":"oct","kid":"k1","k":"c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMzQ"}`), s, "no public key"},
		{"RFC 7517 5", "an unknown kind beside a good one", set(`{"kty":"XYZ","kid":"k0"}`, `{"kid":"k1"}`, `17`, good), s, ""},
		{"RFC 7517 4.5", "two keys of one id, the second fits", set(jwkText(t, other.public(), nil), good), s, ""},
		{"RFC 7517 4.5", "two kinds of keys of one id", set(jwkText(t, newSigner(t, jose.ES256, "k1").public(), nil), good), s, ""},
		{"RFC 7517 4.5", "another id", set(jwkText(t, s.public(), change{"kid": "k2"})), s, "key id"},
		{"RFC 7517 4.5", "an id in another case", set(jwkText(t, s.public(), change{"kid": "K1"})), s, "key id"},
		{"RFC 7517 4", "a member twice", `{"keys":[` + strings.Replace(good, `{`, `{"kid":"k0",`, 1) + `]}`, s, "two members"},
		{"RFC 7517 5.1", "keys twice", `{"keys":[],"keys":[` + good + `]}`, s, "two members"},
		{"RFC 7518 6.3.1", "a modulus that is no base64", set(jwkText(t, s.public(), change{"n": "***"})), s, "no public key"},
		{"RFC 7518 6.3.1", "an exponent of one", set(jwkText(t, s.public(), change{"e": "AQ"})), s, ""}, // refused below
		{"RFC 7518 6.2.1", "a point that is not on the curve", set(`{"kty":"EC","crv":"P-256","kid":"k1","x":"AQ","y":"AQ"}`), s, "no public key"},
		{"RFC 8037 2", "a curve that does not sign", set(`{"kty":"OKP","crv":"X25519","kid":"k1","x":"` + strings.Repeat("A", 43) + `"}`), s, "no public key"},
		{"RFC 7517 5", "an empty set", set(), s, "no public key"},
		{"RFC 7517 5", "no keys member", `{}`, s, "no list of keys"},
		{"RFC 7517 5", "an object of keys", `{"keys":{"k1":` + good + `}}`, s, "no list of keys"},
		{"RFC 7517 5", "one key instead of a set", good, s, "no list of keys"},
		{"RFC 7517 5", "an array", `[` + good + `]`, s, "not a JSON object"},
		{"RFC 7517 5", "no JSON", `hello`, s, "not a JSON object"},
		{"bounds", "101 keys", set(strings.Split(strings.TrimSuffix(strings.Repeat(good+"|", maxKeys+1), "|"), "|")...), s, "more than"},
		{"bounds", "a bomb of brackets", `{"keys":` + strings.Repeat("[", 500_000), s, "nested too deeply"},
	} {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			p.says(jwksPath, c.set)
			v := newValidator(t, p.provider("main"))
			_, err := v.Validate(t.Context(), c.signer.sign(t, "", p.claims(nil)))
			if strings.Contains(c.name, "exponent of one") {
				if err == nil {
					t.Fatal("accepted")
				}
				return
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(reasons(err), c.want)) {
				t.Errorf("got %s", reasons(err))
			}
		})
	}
}

// A token without a key id costs a bounded number of signature checks, however
// many keys the provider has.
func TestJWT_WithoutKeyID(t *testing.T) {
	p := newIssuer(t)
	signers := make([]*signer, maxTries+1)
	for i := range signers {
		signers[i] = newSigner(t, jose.ES256, fmt.Sprintf("k%d", i))
	}
	p.publish(signers...)
	v := newValidator(t, p.provider("main"))
	claims, _ := json.Marshal(p.claims(nil))
	for i, want := range map[int]bool{0: true, maxTries - 1: true, maxTries: false} {
		if _, err := v.Validate(t.Context(), signers[i].raw(t, `{"alg":"ES256"}`, string(claims))); (err == nil) != want {
			t.Errorf("key %d: %s", i, reasons(err))
		}
	}
}

func FuzzKeySet(f *testing.F) {
	s := newSigner(f, jose.ES256, "k1")
	f.Add([]byte(`{"keys":[` + jwkText(f, s.public(), nil) + `]}`))
	f.Add([]byte(`{"keys":[` + jwkText(f, newSigner(f, jose.RS256, "k1").public(), nil) + `]}`))
	f.Add([]byte(`{"keys":[` + jwkText(f, newSigner(f, jose.EdDSA, "k1").public(), nil) + `,{"kty":"oct","k":"AAAA"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, _, err := decodeKeys(text)
		if (err == nil) != (len(keys) > 0) {
			t.Fatalf("%d keys and %v", len(keys), err)
		}
		for i := range keys {
			if !keys[i].IsPublic() || !keys[i].Valid() {
				t.Fatalf("a key that is not public or valid: %T", keys[i].Key)
			}
			for _, alg := range algorithms {
				if fits(&keys[i], alg) { // whatever the key is, this ends and does not panic
					checkSignature(alg, keys[i].Key, []byte("message"), make([]byte, 64))
				}
			}
		}
	})
}
