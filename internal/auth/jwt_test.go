package auth

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

func TestJWT(t *testing.T) {
	p := newIssuer(t)
	s := newSigner(t, jose.RS256, "k1")
	p.publish(s)
	c := stopped()
	v := newValidatorWith(t, Options{Now: c.now}, p.provider("main"))
	now := c.now()
	many := make([]string, 10_000)
	for i := range many {
		many[i] = "x"
	}
	type change = map[string]any
	for _, c := range []struct {
		rule, name string
		typ        string
		change     change
		want       string // part of the reason; "" is accepted
	}{
		{"RFC 7515 4.1.9", "no type", "", nil, ""},
		{"RFC 9068 2.1", "typed as an access token", "at+jwt", nil, ""},
		{"RFC 9068 2.1", "typed with a media type", "application/at+jwt", nil, ""},
		{"RFC 7515 4.1.9", "typed in capitals", "AT+JWT", nil, ""},
		{"RFC 7519 5.1", "typed JWT", "JWT", nil, ""},
		{"RFC 8725 3.11", "an ID token by type", "id_token", nil, "another type"},
		{"RFC 9449 4.2", "a DPoP proof", "dpop+jwt", nil, "another type"},
		{"OIDC BCL 2.4", "a logout token", "logout+jwt", nil, "another type"},
		{"RFC 8417 2.3", "a security event", "secevent+jwt", nil, "another type"},
		{"RFC 8725 3.11", "an ID token by its use (Cognito)", "", change{"token_use": "id"}, "another use"},
		{"RFC 8725 3.11", "an access token by its use (Cognito)", "", change{"token_use": "access"}, ""},
		{"RFC 8725 3.11", "an ID token by its claims (Keycloak)", "", change{"typ": "ID"}, "another use"},
		{"RFC 8725 3.11", "a refresh token by its claims (Keycloak)", "", change{"typ": "Refresh"}, "another use"},
		{"RFC 8725 3.11", "an access token by its claims (Keycloak)", "", change{"typ": "Bearer"}, ""},
		{"RFC 8725 3.11", "a type with a blank", "JWT ", nil, "another type"},
		{"RFC 8725 3.11", "a type of half a media type", "application/", nil, ""},

		{"RFC 7519 4.1.3", "audience in a list", "", change{"aud": []string{"x", "registry"}}, ""},
		{"RFC 8725 3.9", "another audience", "", change{"aud": "other"}, "audience does not match"},
		{"RFC 8725 3.9", "no audience", "", change{"aud": nil}, "audience does not match"},
		{"RFC 8725 3.9", "an empty list of audiences", "", change{"aud": []string{}}, "audience does not match"},
		{"RFC 7519 2", "audience in another case", "", change{"aud": "Registry"}, "audience does not match"},
		{"RFC 7519 2", "a part of the audience", "", change{"aud": "registry2"}, "audience does not match"},
		{"RFC 7519 4.1.3", "two audiences in one string", "", change{"aud": "x registry"}, "audience does not match"},
		{"RFC 7519 4.1.3", "an object as audience", "", change{"aud": change{"registry": true}}, "audience does not match"},
		{"RFC 7519 4.1.3", "a number among audiences", "", change{"aud": []any{"registry", 1}}, "audience does not match"},
		{"bounds", "10,000 audiences", "", change{"aud": many}, "longer than"},

		{"RFC 8725 3.8", "issuer with a trailing slash", "", change{"iss": p.URL + "/"}, "another issuer"},
		{"RFC 8725 3.8", "issuer in another case", "", change{"iss": strings.ToUpper(p.URL)}, "another issuer"},
		{"RFC 8725 3.8", "issuer with a blank", "", change{"iss": p.URL + " "}, "another issuer"},
		{"RFC 9068 4", "no issuer", "", change{"iss": nil}, "another issuer"},
		{"RFC 7519 4.1.1", "a list as issuer", "", change{"iss": []string{p.URL}}, "another issuer"},

		{"RFC 7519 4.1.4", "expired", "", change{"exp": now.Add(-time.Minute).Unix()}, "has expired"},
		{"RFC 7519 4.1.4", "expired within the leeway", "", change{"exp": now.Add(-10 * time.Second).Unix()}, ""},
		{"RFC 7519 2", "expiry with a fraction", "", change{"exp": float64(now.Unix()) + 600.5}, ""},
		{"RFC 9068 2.2", "no expiry", "", change{"exp": nil}, "no expiry"},
		{"RFC 7519 4.1.4", "null as expiry", "", change{"exp": json.RawMessage("null")}, "no expiry"},
		{"RFC 7519 4.1.4", "expiry as words", "", change{"exp": "tomorrow"}, "no expiry"},
		{"RFC 7519 4.1.4", "expiry as digits in a string", "", change{"exp": fmt.Sprint(now.Add(time.Hour).Unix())}, "no expiry"},
		{"RFC 7519 4.1.4", "expiry as true", "", change{"exp": true}, "no expiry"},
		{"RFC 7519 4.1.4", "expiry in a list", "", change{"exp": []int64{now.Add(time.Hour).Unix()}}, "no expiry"},
		{"RFC 7519 2", "a negative expiry", "", change{"exp": -1}, "no expiry"},
		{"RFC 7519 2", "a huge expiry", "", change{"exp": json.RawMessage("1e300")}, "no expiry"},
		{"RFC 7519 2", "an expiry beyond any number", "", change{"exp": json.RawMessage("1e999")}, "no expiry"},
		{"RFC 7519 2", "an expiry of 40 digits", "", change{"exp": json.RawMessage(strings.Repeat("9", 40))}, "no expiry"},
		{"RFC 7519 2", "an expiry that would wrap around", "", change{"exp": json.RawMessage("9223372036854775807")}, "no expiry"},
		{"RFC 7519 2", "an expiry in milliseconds", "", change{"exp": now.Add(-time.Hour).UnixMilli()}, "no expiry"},

		{"RFC 7519 4.1.5", "not valid yet", "", change{"nbf": now.Add(time.Minute).Unix()}, "not valid yet (nbf)"},
		{"RFC 7519 4.1.5", "not valid yet, within the leeway", "", change{"nbf": now.Add(10 * time.Second).Unix()}, ""},
		{"RFC 7519 4.1.5", "a start as words", "", change{"nbf": "now"}, "nbf cannot be read"},
		{"RFC 7519 4.1.6", "issued in the future", "", change{"iat": now.Add(time.Minute).Unix()}, "not valid yet (iat)"},
		{"RFC 7519 4.1.6", "issued in the future, just a little", "", change{"iat": now.Add(10 * time.Second).Unix()}, ""},
		{"RFC 7519 4.1.6", "an issue date as a string", "", change{"iat": "1"}, "iat cannot be read"},

		{"RFC 7519 4.1.2", "a subject that is a number", "", change{"sub": 1}, "subject is not text"},
		{"RFC 7519 4.1.2", "a subject that is null", "", change{"sub": json.RawMessage("null")}, "subject is not text"},
		{"bounds", "claims nested too deeply", "", change{"x": json.RawMessage(strings.Repeat("[", 40) + strings.Repeat("]", 40))}, "nested too deeply"},
	} {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			id, err := v.Validate(t.Context(), s.sign(t, c.typ, p.claims(c.change)))
			if c.want == "" {
				if err != nil {
					t.Fatal(reasons(err))
				}
				if id.Subject != "jo" || id.Provider != "main" || !id.HasScope("b") || id.HasScope("c") {
					t.Errorf("identity %+v", id)
				}
				return
			}
			if err == nil || !strings.Contains(reasons(err), c.want) {
				t.Errorf("got %v", reasons(err))
			}
		})
	}
}

// Signatures of go-jose are accepted, for each algorithm.
func TestJWT_Algorithms(t *testing.T) {
	p := newIssuer(t)
	for _, alg := range algorithms {
		s := newSigner(t, jose.SignatureAlgorithm(alg), alg)
		p.publish(s)
		v := newValidator(t, p.provider("main"))
		js, err := jose.NewSigner(jose.SigningKey{Algorithm: s.alg, Key: s.key}, (&jose.SignerOptions{}).WithHeader("kid", alg))
		if err != nil {
			t.Fatal(err)
		}
		payload, _ := json.Marshal(p.claims(nil))
		jws, err := js.Sign(payload)
		if err != nil {
			t.Fatal(err)
		}
		token, _ := jws.CompactSerialize()
		if _, err := v.Validate(t.Context(), token); err != nil {
			t.Errorf("%s: %s", alg, reasons(err))
		}
		// And so are those of the tests.
		if _, err := v.Validate(t.Context(), s.raw(t, `{"kid":"`+alg+`","alg":"`+alg+`"}`, string(payload))); err != nil {
			t.Errorf("%s: %s", alg, reasons(err))
		}
		// A key is for one algorithm, whatever it could do.
		for _, other := range algorithms {
			if other != alg {
				if _, err := v.Validate(t.Context(), s.raw(t, `{"kid":"`+alg+`","alg":"`+other+`"}`, string(payload))); err == nil {
					t.Errorf("a signature of %s passes for one of %s", alg, other)
				}
			}
		}
	}
}

// Tokens that a hostile caller makes. None of the forgeries is accepted; what is
// merely odd and properly signed is.
func TestJWT_Hostile(t *testing.T) {
	p, other := newIssuer(t), newIssuer(t)
	s := newSigner(t, jose.RS256, "k1")
	p.publish(s)
	foreign := newSigner(t, jose.RS256, "other")
	other.publish(foreign)
	forger := newSigner(t, jose.RS256, "k1")
	v := newValidator(t, p.provider("main"), other.provider("other"))
	text, _ := json.Marshal(p.claims(nil))
	claims := string(text)
	rootText, _ := json.Marshal(p.claims(map[string]any{"sub": "root"}))
	root := string(rootText)
	good := s.sign(t, "", p.claims(nil))
	parts := strings.Split(good, ".")
	pub, _ := json.Marshal(s.public())
	forgerPub, _ := json.Marshal(forger.public())
	iss := `"iss":"` + p.URL + `"`
	exp := fmt.Sprintf(`"exp":%d`, time.Now().Add(time.Hour).Unix())

	for _, c := range []struct {
		rule, name, token string
		want              string // part of the reason; "" is accepted
	}{
		{"RFC 8725 3.1", "no algorithm", b64(`{"alg":"none"}`) + "." + b64(root) + ".", "algorithm is not accepted"},
		{"RFC 8725 3.1", "no algorithm, with a signature", b64(`{"alg":"none"}`) + "." + b64(root) + "." + parts[2], "algorithm is not accepted"},
		{"RFC 8725 3.1", "None", b64(`{"alg":"None","kid":"k1"}`) + "." + b64(root) + "." + parts[2], "algorithm is not accepted"},
		{"RFC 7515 4.1.1", "the algorithm in lowercase", s.raw(t, `{"alg":"rs256","kid":"k1"}`, claims), "algorithm is not accepted"},
		{"RFC 7515 4.1.1", "the algorithm left out", s.raw(t, `{"kid":"k1"}`, claims), "algorithm is not accepted"},
		{"RFC 7515 4.1.1", "an algorithm that is a list", s.raw(t, `{"alg":["RS256"],"kid":"k1"}`, claims), "not text"},
		{"RFC 7515 4.1.1", "a name in capitals", s.raw(t, `{"ALG":"RS256","kid":"k1"}`, claims), "algorithm is not accepted"},
		{"RFC 8725 2.1", "HMAC by the public key", hmacToken(`{"alg":"HS256","kid":"k1"}`, root, pub), "algorithm is not accepted"},
		{"RFC 8725 2.1", "HMAC by nothing", hmacToken(`{"alg":"HS256","kid":"k1"}`, root, nil), "algorithm is not accepted"},
		{"RFC 8725 3.1", "the algorithm of another kind of key", s.raw(t, `{"alg":"ES256","kid":"k1"}`, claims), "no key"},
		{"RFC 8725 3.1", "another algorithm of the same key", s.raw(t, `{"alg":"PS256","kid":"k1"}`, claims), "no key"},

		{"RFC 7515 5.2", "changed claims", parts[0] + "." + b64(root) + "." + parts[2], "signature is not valid"},
		{"RFC 7515 5.2", "a changed header", b64(`{"alg":"RS256","kid":"k1","x":1}`) + "." + parts[1] + "." + parts[2], "signature is not valid"},
		{"RFC 7515 5.2", "no signature", parts[0] + "." + parts[1] + ".", "signature is not valid"},
		{"RFC 7515 5.2", "a signature of zeros", parts[0] + "." + parts[1] + "." + b64(strings.Repeat("\x00", 256)), "signature is not valid"},
		{"RFC 7515 5.2", "a longer signature", good + "AAAA", "signature is not valid"},
		{"RFC 7515 5.2", "a signature cut short", parts[0] + "." + parts[1] + "." + parts[2][:340], "signature is not valid"},
		{"RFC 7515 5.2", "another's key by the same id", forger.sign(t, "", p.claims(nil)), "signature is not valid"},
		{"RFC 8725 3.8", "the key of another provider", foreign.sign(t, "", p.claims(nil)), "key id"},
		{"RFC 8725 3.8", "the issuer of another provider", s.sign(t, "", p.claims(map[string]any{"iss": other.URL})), "key id"},

		{"RFC 8725 3.10", "a key of the forger in the header", forger.raw(t, `{"alg":"RS256","jwk":`+string(forgerPub)+`}`, root), "signature is not valid"},
		{"RFC 8725 3.10", "a place of keys in the header", forger.raw(t, `{"alg":"RS256","kid":"k1","jku":"`+other.URL+`/evil"}`, root), "signature is not valid"},
		{"RFC 8725 3.10", "a certificate's place in the header", forger.raw(t, `{"alg":"RS256","x5u":"`+other.URL+`/evil"}`, root), "signature is not valid"},
		{"RFC 8725 3.10", "a certificate in the header", forger.raw(t, `{"alg":"RS256","x5c":["AAAA"],"x5t":"AAAA"}`, root), "signature is not valid"},
		{"RFC 8725 3.10", "keys in the header are not looked at", s.raw(t, `{"alg":"RS256","kid":"k1","jwk":`+string(forgerPub)+`,"jku":"x","x5u":"x","x5c":"x"}`, claims), ""},
		{"RFC 8725 3.10", "a key id that is a path", forger.raw(t, `{"alg":"RS256","kid":"../../etc/passwd"}`, root), "key id"},
		{"RFC 7515 4.1.4", "a key id that is a number", s.raw(t, `{"alg":"RS256","kid":1}`, claims), "not text"},
		{"RFC 7515 4.1.4", "no key id", s.raw(t, `{"alg":"RS256"}`, claims), ""},
		{"RFC 7515 4.1.9", "a type that is a list", s.raw(t, `{"alg":"RS256","kid":"k1","typ":["JWT"]}`, claims), "not text"},
		{"RFC 7515 4.1.9", "a type that is null", s.raw(t, `{"alg":"RS256","kid":"k1","typ":null}`, claims), "not text"},

		{"RFC 7515 4.1.11", "a critical extension", s.raw(t, `{"alg":"RS256","kid":"k1","crit":["x"],"x":1}`, claims), "not supported"},
		{"RFC 7515 4.1.11", "an empty list of critical ones", s.raw(t, `{"alg":"RS256","kid":"k1","crit":[]}`, claims), "not supported"},
		{"RFC 7515 4.1.11", "null as critical", s.raw(t, `{"alg":"RS256","kid":"k1","crit":null}`, claims), "not supported"},
		{"RFC 7797 7", "a payload as it is", s.raw(t, `{"alg":"RS256","kid":"k1","b64":false,"crit":["b64"]}`, claims), "not supported"},
		{"RFC 7797 6", "a payload as it is, not marked critical", s.raw(t, `{"alg":"RS256","kid":"k1","b64":false}`, claims), "not supported"},

		{"RFC 7515 4", "a header member twice", s.raw(t, `{"alg":"none","alg":"RS256","kid":"k1"}`, claims), "two members"},
		{"RFC 7515 4", "a header member twice, once escaped", s.raw(t, `{"alg":"RS256","kid":"k1","ki\u0064":"k2"}`, claims), "two members"},
		{"RFC 7519 4", "a claim twice", s.raw(t, `{"alg":"RS256","kid":"k1"}`, `{`+iss+`,`+exp+`,"aud":"x","aud":"registry"}`), "two members"},
		{"RFC 7519 4", "the issuer twice", s.raw(t, `{"alg":"RS256","kid":"k1"}`, `{`+iss+`,`+iss+`,`+exp+`,"aud":"registry"}`), "two members"},
		{"RFC 7519 4", "names that differ in case", s.raw(t, `{"alg":"RS256","kid":"k1"}`, `{`+iss+`,`+exp+`,"aud":"registry","AUD":"x","Exp":1}`), ""},
		{"RFC 7519 7.2", "claims that are a list", s.raw(t, `{"alg":"RS256","kid":"k1"}`, `[`+claims+`]`), "not a JSON object"},
		{"RFC 7519 7.2", "claims that are null", s.raw(t, `{"alg":"RS256","kid":"k1"}`, `null`), "not a JSON object"},
		{"RFC 7519 7.2", "claims that are not JSON", s.raw(t, `{"alg":"RS256","kid":"k1"}`, `hello`), "not a JSON object"},
		{"RFC 7519 7.2", "words behind the claims", s.raw(t, `{"alg":"RS256","kid":"k1"}`, claims+"x"), "not JSON"},
		{"RFC 8259 8.1", "claims in bad UTF-8", s.raw(t, `{"alg":"RS256","kid":"k1"}`, strings.Replace(claims, "jo", "j\xff", 1)), "not JSON"},
		{"RFC 7519 5.2", "a token in a token", s.raw(t, `{"alg":"RS256","kid":"k1","cty":"JWT"}`, good), "not a JSON object"},
		{"RFC 7515 4", "blanks around the header's object", s.raw(t, "\n{ \"alg\" : \"RS256\" , \"kid\":\"k1\"} ", claims), ""},

		{"RFC 7516 3.1", "an encrypted token", b64(`{"alg":"RSA-OAEP","enc":"A128GCM"}`) + ".AA.AA.AA.AA", "opaque"},
		{"RFC 7515 7.1", "two parts", parts[0] + "." + parts[1], "opaque"},
		{"RFC 7515 7.1", "four parts", good + ".x", "opaque"},
		{"RFC 7515 2", "padding", parts[0] + "==." + parts[1] + "." + parts[2], "opaque"},
		{"RFC 4648 3.5", "stray bits in the signature", strayBits(good), "opaque"},
		{"RFC 7515 2", "a header that is a list", b64(`["alg"]`) + "." + parts[1] + "." + parts[2], "opaque"},
		{"RFC 7515 2", "a header that is no JSON", b64(`{"alg"`) + "." + parts[1] + "." + parts[2], "opaque"},
		{"RFC 6750 2.1", "a blank before it", " " + good, "characters"},
		{"RFC 6750 2.1", "a line break behind it", good + "\n", "characters"},
		{"RFC 6750 2.1", "a line break within", good[:50] + "\n" + good[50:], "characters"},
		{"RFC 6750 2.1", "a zero byte", good + "\x00", "characters"},
		{"RFC 6750 2.1", "other letters", "tökén", "characters"},
		{"bounds", "empty", "", "empty"},
		{"bounds", "too long", strings.Repeat("a", maxToken+1), "longer than"},
		{"bounds", "a header nested deeply", s.raw(t, `{"alg":"RS256","x":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`}`, claims), "nested too deeply"},
		{"decisions", "garbage", "garbage", "opaque"},
	} {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			id, err := v.Validate(t.Context(), c.token)
			if c.want == "" {
				if err != nil {
					t.Fatal(reasons(err))
				}
				return
			}
			if err == nil {
				t.Fatalf("accepted as %+v", id)
			}
			why := reasons(err)
			if !strings.Contains(why, c.want) {
				t.Errorf("got %s", why)
			}
			for _, part := range strings.Split(c.token, ".") {
				if len(part) > 12 && strings.Contains(why+err.Error(), part) {
					t.Errorf("the refusal repeats the token: %s", why)
				}
			}
		})
	}
	if n := other.fetches.Load(); n > 1+int32(unknownKidBurst) {
		t.Errorf("the other provider was asked %d times", n)
	}
}

// strayBits sets bits of the last character that no byte comes of.
func strayBits(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, token[len(token)-1])
	return token[:len(token)-1] + alphabet[last^1:last^1+1]
}

// What this package accepts as signed, go-jose accepts too.
func FuzzToken(f *testing.F) {
	for _, alg := range []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA} {
		s := newSigner(f, alg, "k1")
		token := s.sign(f, "at+jwt", map[string]any{"iss": "https://issuer.example", "aud": "registry", "exp": 4102444800, "sub": "jo"})
		f.Add(token)
		f.Add(strings.Replace(token, ".", "..", 1))
		f.Add(token + "=")
	}
	f.Add(b64(`{"alg":"none"}`) + "." + b64(`{}`) + ".")
	s := newSigner(f, jose.ES256, "k1")
	f.Add(s.raw(f, `{"alg":"ES256","kid":"k1","kid":"k2"}`, `{"iss":"a","iss":"b"}`))
	held := []jose.JSONWebKey{s.public()}
	f.Fuzz(func(t *testing.T, token string) {
		if !wellFormed(token) {
			return
		}
		got := parseToken(token)
		if got == nil {
			return
		}
		if got.fault != nil {
			if got.fault.reason == "" {
				t.Fatal("a fault without a reason")
			}
			return
		}
		jws, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(got.alg)})
		if err == nil && (jws.Signatures[0].Protected.KeyID != got.kid || jws.Signatures[0].Protected.Algorithm != got.alg) {
			t.Fatalf("read %q %q, go-jose read %+v", got.alg, got.kid, jws.Signatures[0].Protected)
		}
		if _, r := got.verify(held); r == nil {
			if err != nil {
				t.Fatalf("accepted here, unreadable for go-jose: %v", err)
			}
			if _, err := jws.Verify(held[0].Key); err != nil {
				t.Fatalf("accepted here, refused by go-jose: %v", err)
			}
		}
		c := subject{claims: got.claims, provider: &Provider{IssuerURL: "https://issuer.example", Audience: "registry"}, now: time.Unix(4000000000, 0)}
		c.check()
		scopesOf(got.claims)
		_ = Inspect(token, []Provider{{Name: "a", IssuerURL: got.issuer(), Audience: "registry"}}, 0).String()
	})
}

func TestJWT_NoLeeway(t *testing.T) {
	p := newIssuer(t)
	s := newSigner(t, jose.ES256, "k1")
	p.publish(s)
	v := newValidatorWith(t, Options{Leeway: -1}, p.provider("main"))
	if _, err := v.Validate(context.Background(), s.sign(t, "", p.claims(map[string]any{"exp": time.Now().Add(-2 * time.Second).Unix()}))); err == nil {
		t.Error("an expired token was accepted without leeway")
	}
}

func TestCache_TokenExpiry(t *testing.T) {
	p := newIssuer(t)
	s := newSigner(t, jose.ES256, "k1")
	p.publish(s)
	c := stopped()
	v := newValidatorWith(t, Options{Now: c.now, Leeway: -1}, p.provider("main"))
	token := s.sign(t, "", p.claims(map[string]any{"exp": c.now().Add(30 * time.Second).Unix()}))
	if _, err := v.Validate(t.Context(), token); err != nil {
		t.Fatal(reasons(err))
	}
	c.advance(31 * time.Second)
	if _, err := v.Validate(t.Context(), token); err == nil {
		t.Error("accepted after its end")
	}
}

func TestJWT_ProvidersOfOneIssuer(t *testing.T) {
	p := newIssuer(t)
	s := newSigner(t, jose.ES256, "k1")
	p.publish(s)
	first, second := p.provider("first"), p.provider("second")
	second.Audience = "other"
	v := newValidator(t, first, second)
	for audience, want := range map[string]string{"registry": "first", "other": "second"} {
		id, err := v.Validate(t.Context(), s.sign(t, "", p.claims(map[string]any{"aud": audience})))
		if err != nil || id.Provider != want {
			t.Errorf("%s: %+v, %s", audience, id, reasons(err))
		}
	}
	_, err := v.Validate(t.Context(), s.sign(t, "", p.claims(map[string]any{"aud": "third"})))
	if why := reasons(err); !strings.Contains(why, `first: the audience does not match (expected "registry", got "third")`) || !strings.Contains(why, `second: the audience`) {
		t.Error(why)
	}
}
