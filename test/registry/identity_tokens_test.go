//go:build integration

package registry

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/toolhaven/toolhaven/test/idp"
)

// otherResource is the audience of the second provider.
const otherResource = "https://registry.example.com/other"

// family is one server with every kind of provider at once.
//
//	a, b    RS256, each with a key of the id "shared"; b has another audience
//	c       ES256; opaque tokens by introspection with client credentials
//	d       opaque tokens by introspection without any
type family struct {
	*caller
	a, b, c, d *idp.Provider
}

func newFamily(t *testing.T) *family {
	t.Helper()
	opaque := []string{resource, "https://elsewhere.example"}
	f := &family{
		a: idp.Start(t, idp.Options{KeyID: "shared"}), b: idp.Start(t, idp.Options{KeyID: "shared"}),
		c: idp.Start(t, idp.Options{Algorithm: "ES256", Opaque: opaque}), d: idp.Start(t, idp.Options{Opaque: opaque}),
	}
	config := oauthConfig(t, "", f.a, f.b, f.c)
	config = strings.Replace(config, "issuerUrl: "+f.b.Issuer+"\n        audience: "+resource, "issuerUrl: "+f.b.Issuer+"\n        audience: "+otherResource, 1)
	config = withIntrospection(t, config, f.c)
	config += fmt.Sprintf("      - {name: idp3, issuerUrl: %q, audience: %q, introspectionUrl: %q}\n", f.d.Issuer, resource, openIntrospection(t, f.d))
	f.caller = calls(t, serve(t, config))
	return f
}

// openIntrospection lets whoever asks introspect at p, as a provider does that is
// guarded by a network and not by a secret. The answers are p's own. Whoever
// sends a credential all the same is refused.
func openIntrospection(t *testing.T, p *idp.Provider) string {
	t.Helper()
	target, err := url.Parse(p.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.SetBasicAuth(url.QueryEscape(idp.IntrospectionClient), url.QueryEscape(idp.IntrospectionSecret))
	}}
	open := newRogue(t)
	open.serve("/token/introspection", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			http.Error(w, "nobody asked for a credential", http.StatusBadRequest)
			return
		}
		proxy.ServeHTTP(w, r)
	})
	return open.URL + "/token/introspection"
}

func TestTokens_Accepted(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	for _, c := range []struct{ rule, name, token string }{
		{"spec 5.5", "a JWT of the first provider", f.a.Token(t, resource)},
		{"spec 5.8", "a JWT of the second, for its own audience", f.b.Token(t, otherResource)},
		{"spec 5.6", "an opaque token, introspected with client credentials", f.c.Token(t, resource)},
		{"spec 5.6", "an opaque token, introspected without", f.d.Token(t, resource)},
		{"RFC 7518 3.4", "a JWT of the third, by ES256", mint(t, f.c.SigningKey(), claims(f.c.Issuer, nil))},
		{"spec 5.4", "a JWT of the provider whose tokens else are opaque", mint(t, f.d.SigningKey(), claims(f.d.Issuer, nil))},
		{"RFC 7519 4.1.3", "ours among other audiences", mint(t, f.a.SigningKey(), claims(f.a.Issuer, map[string]any{"aud": []string{"https://x.example", resource}}))},
		{"RFC 7515 4.1.4", "no key id", forge(t, f.a.SigningKey(), `{"alg":"RS256"}`, claims(f.a.Issuer, nil))},
		{"RFC 9068 2.1", "typed as application/at+jwt", forge(t, f.a.SigningKey(), `{"alg":"RS256","kid":"shared","typ":"application/AT+JWT"}`, claims(f.a.Issuer, nil))},
		{"RFC 7519 2", "an expiry with a fraction", mint(t, f.a.SigningKey(), claims(f.a.Issuer, map[string]any{"exp": json.Number(fmt.Sprintf("%d.75", time.Now().Add(time.Minute).Unix()))}))},
		{"decisions", "our clock is 20 s behind: it starts soon", mint(t, f.a.SigningKey(), claims(f.a.Issuer, map[string]any{"nbf": time.Now().Add(20 * time.Second).Unix(), "iat": time.Now().Add(20 * time.Second).Unix()}))},
	} {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) { accepted(t, f.with(t, c.token)) })
	}
	// Made when it is shown: 10 s later it is refused.
	t.Run("decisions/our clock is 20 s ahead: it has just expired", func(t *testing.T) {
		accepted(t, f.with(t, mint(t, f.a.SigningKey(), claims(f.a.Issuer, map[string]any{"exp": time.Now().Add(-20 * time.Second).Unix()}))))
	})
	person := f.a.UserTokens(t, "jo", resource, "mcp-registry:read")
	accepted(t, f.with(t, person.AccessToken))
}

// badToken is a row of the tables: a token that must not let its bearer in.
type badToken struct {
	rule, name, token string
	// code is the error of RFC 6750 section 3.1, why what the log says.
	code, why string
}

func (f *family) refuses(t *testing.T, rows []badToken) {
	for _, c := range rows {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			since := f.mark()
			refused(t, f.with(t, c.token), c.code)
			f.said(t, since, "token refused", c.why)
		})
	}
}

const invalid = "invalid_token"

func TestTokens_WrongProvider(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	a, b, c := f.a.SigningKey(), f.b.SigningKey(), f.c.SigningKey()
	named := func(key jose.JSONWebKey, id string) jose.JSONWebKey { key.KeyID = id; return key }
	revoked := f.d.Token(t, resource)
	f.d.Revoke(t, revoked)
	person := f.c.UserTokens(t, "jo", resource, "offline_access", "mcp-registry:read")
	f.refuses(t, []badToken{
		{"RFC 8725 3.8", "signed by a, says it is b's, with b's audience", mint(t, a, claims(f.b.Issuer, map[string]any{"aud": otherResource})), invalid, "idp1: its signature is not valid"},
		{"RFC 8725 3.8", "signed by b, says it is a's", mint(t, b, claims(f.a.Issuer, nil)), invalid, "idp0: its signature is not valid"},
		{"RFC 8725 3.8", "signed by c under a's key id, says it is a's", forge(t, c, `{"alg":"ES256","kid":"shared"}`, claims(f.a.Issuer, nil)), invalid, "idp0: no key of the provider fits"},
		{"RFC 8725 3.8", "signed by a under c's key id, says it is c's", mint(t, named(a, c.KeyID), claims(f.c.Issuer, nil)), invalid, "idp2: no key of the provider fits"},
		{"RFC 8725 3.8", "signed by a, says it is c's", mint(t, a, claims(f.c.Issuer, nil)), invalid, "idp2: no key of the provider has the token's key id"},
		{"RFC 7519 4.1.3", "b's real token for a's audience", f.b.Token(t, resource), invalid, "idp1: the audience does not match"},
		{"RFC 7519 4.1.3", "a's real token for b's audience", f.a.Token(t, otherResource), invalid, "idp0: the audience does not match"},
		{"RFC 7519 4.1.3", "a's real token for nobody we know", f.a.Token(t, "https://elsewhere.example"), invalid, "idp0: the audience does not match"},
		{"RFC 7519 4.1.1", "an issuer that nobody configured", mint(t, a, claims("https://issuer.example", nil)), invalid, "skipped: the token names another issuer"},
		{"RFC 7519 4.1.1", "the issuer with a slash behind it", mint(t, a, claims(f.a.Issuer+"/", nil)), invalid, "another issuer"},
		{"RFC 7519 4.1.1", "the issuer in capitals", mint(t, a, claims(strings.ToUpper(f.a.Issuer), nil)), invalid, "another issuer"},
		{"RFC 7519 4.1.1", "the issuer with a blank behind it", mint(t, a, claims(f.a.Issuer+" ", nil)), invalid, "another issuer"},
		{"RFC 7519 4.1.1", "two issuers", mint(t, a, claims("", map[string]any{"iss": []string{f.a.Issuer, f.b.Issuer}})), invalid, "another issuer"},
		{"RFC 7519 4.1.1", "no issuer", mint(t, a, claims("", map[string]any{"iss": nil})), invalid, "another issuer"},
		{"RFC 7662 2.2", "an opaque token that was revoked", revoked, invalid, "the provider reports that the token is not active"},
		{"RFC 7662 4", "an opaque token for another resource", f.c.Token(t, "https://elsewhere.example"), invalid, "idp2: the audience does not match"},
		{"RFC 7662 4", "a refresh token, which is active too", person.RefreshToken, invalid, "idp2: the audience does not match"},
		{"RFC 7662 2.2", "an opaque token nobody issued", "b3BhcXVlLW9mLW5vYm9keS1hdC1hbGw", invalid, "idp3: "},
		{"RFC 7662 2.2", "a JWT that fails and is not known to be active either", mint(t, named(a, "x"), claims(f.d.Issuer, nil)), invalid, "idp3: "},
	})
}

// Samples of internal/auth's TestHostileTokens, and what only the program as a whole
// shows: nothing that a token names is fetched.
func TestTokens_Forged(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	key := f.a.SigningKey()
	mallory := newKey(t, "shared")
	trap := newRogue(t) // of the forger: it must receive no request
	trap.says("/jwks", keySet(mallory))
	good := claims(f.a.Issuer, nil)
	root := func() string {
		return claims(f.a.Issuer, map[string]any{"sub": "root", "scope": "mcp-registry:write"})
	}
	honest := mint(t, key, good)
	parts := strings.Split(honest, ".")
	public, err := x509.MarshalPKIXPublicKey(key.Public().Key)
	if err != nil {
		t.Fatal(err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	keyed := func(secret []byte) string {
		input := b64(`{"alg":"HS256","kid":"shared","typ":"at+jwt"}`) + "." + b64(root())
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(input))
		return input + "." + b64(string(mac.Sum(nil)))
	}
	const notAccepted, notValid = "the signature algorithm is not accepted", "its signature is not valid"
	head := func(more string) string { return `{"alg":"RS256","kid":"shared"` + more + `}` }
	f.refuses(t, []badToken{
		{"RFC 8725 3.1", "alg none, without a signature", b64(`{"alg":"none","typ":"at+jwt"}`) + "." + b64(root()) + ".", invalid, notAccepted},
		{"RFC 8725 2.1", "HS256 with the public key as PEM", keyed(publicPEM), invalid, notAccepted},
		{"RFC 8725 2.1", "HS256 with the public key as PEM, without the last line break", keyed(publicPEM[:len(publicPEM)-1]), invalid, notAccepted},
		{"RFC 8725 2.1", "HS256 with the public key as DER", keyed(public), invalid, notAccepted},
		{"RFC 7515 5.2", "claims changed", parts[0] + "." + b64(root()) + "." + parts[2], invalid, notValid},
		{"RFC 7515 5.2", "another's key under the same id", mint(t, mallory, root()), invalid, notValid},
		{"RFC 8725 3.10", "jku: a place of keys in the header", forge(t, mallory, head(`,"jku":"`+trap.URL+`/jwks"`), root()), invalid, notValid},
		{"RFC 8725 3.10", "jku without a key id", forge(t, mallory, `{"alg":"RS256","jku":"`+trap.URL+`/jwks"}`, root()), invalid, notValid},
		{"RFC 8725 3.10", "x5u: a place of certificates in the header", forge(t, mallory, head(`,"x5u":"`+trap.URL+`/jwks"`), root()), invalid, notValid},
		{"RFC 8725 3.10", "the forger's place as the issuer", mint(t, mallory, claims(trap.URL, nil)), invalid, "another issuer"},
		{"RFC 7515 4.1.4", "a key id that is SQL", forge(t, key, `{"alg":"RS256","kid":"' OR 1=1 --"}`, good), invalid, "no key of the provider has the token's key id"},
		{"RFC 7515 7.2", "the JSON serialization", b64(`{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`), invalid, "idp0: skipped: the token is opaque"},
	})
	if n := trap.hits.Load(); n != 0 {
		t.Errorf("the forger's server was asked %d times", n)
	}
	// What is not looked at does no harm either.
	accepted(t, f.with(t, forge(t, key, head(`,"jku":"`+trap.URL+`/jwks","x5u":7,"jwk":{},"x5c":[]`), good)))
	accepted(t, f.with(t, honest))
}

// Samples of internal/auth's tables of claims, and claims that these do not have.
func TestTokens_InvalidClaims(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	key := f.a.SigningKey()
	with := func(name string, value any) string {
		return mint(t, key, claims(f.a.Issuer, map[string]any{name: value}))
	}
	raw := func(name, value string) string { return with(name, json.RawMessage(value)) }
	text := func(claims string) string { return mint(t, key, claims) }
	at := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	const noExpiry, expired, early, audience = "it has no expiry that can be read", "it has expired", "it is not valid yet", "the audience does not match"
	iss := fmt.Sprintf(`"iss":%q`, f.a.Issuer)
	// Made when it is shown: 10 s later it is accepted.
	f.refuses(t, []badToken{{"RFC 7519 4.1.5", "nbf beyond the leeway: our clock is behind", with("nbf", at(40*time.Second)), invalid, early}})
	f.refuses(t, []badToken{
		{"RFC 7519 4.1.4", "expired just beyond the leeway: our clock is ahead", with("exp", at(-31*time.Second)), invalid, expired},
		{"RFC 7519 4.1.4", "exp 0", with("exp", 0), invalid, expired},
		{"RFC 7519 4.1.4", "exp an object", with("exp", map[string]int64{"exp": at(time.Hour)}), invalid, noExpiry},
		{"RFC 8259 6", "exp NaN", text(`{` + iss + `,"exp":NaN}`), invalid, "not JSON"},
		{"RFC 7519 4.1.5", "nbf null", raw("nbf", "null"), invalid, "its nbf cannot be read"},
		{"RFC 7519 4.1.3", "no audience", with("aud", nil), invalid, audience},
		{"RFC 7519 4.1.3", "ours with a slash behind it", with("aud", resource+"/"), invalid, audience},
		{"RFC 7519 4.1.3", "ours in a list in a list", with("aud", []any{[]string{resource}}), invalid, audience},
		{"RFC 7519 4.1.3", "a wildcard", with("aud", "*"), invalid, audience},
		{"RFC 7519 4.1.3", "null", raw("aud", "null"), invalid, audience},
		{"RFC 7519 4", "claims named in capitals", text(fmt.Sprintf(`{"ISS":%q,"EXP":%d,"AUD":%q}`, f.a.Issuer, at(time.Hour), resource)), invalid, "another issuer"},
	})
}

// The form of a credential is checked before its content.
func TestTokens_MalformedCredentials(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	good := f.a.Token(t, resource, "mcp-registry:read", "mcp-registry:write")
	other := f.a.Token(t, resource, "mcp-registry:read")
	f.remember(good, other)
	const request = "invalid_request"
	long := func(n int) string {
		key := f.a.SigningKey()
		return mint(t, key, claims(f.a.Issuer, map[string]any{"pad": strings.Repeat("x", n)}))
	}
	for _, c := range []struct {
		rule, name string
		header     http.Header
		code, why  string // no code: no bearer credential was sent
	}{
		{"RFC 6750 3.1", "nothing", nil, "", ""},
		{"RFC 6750 3.1", "another scheme", http.Header{"Authorization": {"Basic " + good}}, "", ""},
		{"RFC 6750 3.1", "another scheme with bearer in its name", http.Header{"Authorization": {"BearerX " + good}}, "", ""},
		{"RFC 6750 3.1", "the token alone", http.Header{"Authorization": {good}}, "", ""},
		{"RFC 9110 11.7.1", "for a proxy", http.Header{"Proxy-Authorization": {"Bearer " + good}}, "", ""},
		{"RFC 6750 2", "in a cookie", http.Header{"Cookie": {"access_token=" + good + "; Authorization=Bearer " + good}}, "", ""},
		{"RFC 6750 2", "in a header of our own invention", http.Header{"X-Access-Token": {good}, "X-Forwarded-Access-Token": {good}, "X-Forwarded-User": {"root"}}, "", ""},
		{"RFC 6750 2", "two Authorization headers, the same", http.Header{"Authorization": {"Bearer " + good, "Bearer " + good}}, request, "more than one Authorization header"},
		{"RFC 6750 2", "two Authorization headers, of two callers", http.Header{"Authorization": {"Bearer " + good, "Bearer " + other}}, request, "more than one Authorization header"},
		{"RFC 6750 2", "two Authorization headers, one of another scheme", http.Header{"Authorization": {"Basic eDp5", "Bearer " + good}}, request, "more than one Authorization header"},
		{"RFC 9110 11.6.2", "two credentials in one header", http.Header{"Authorization": {"Bearer " + good + ", Bearer " + other}}, request, "not of the form"},
		{"RFC 6750 2.1", "two blanks", http.Header{"Authorization": {"Bearer  " + good}}, request, "not of the form"},
		{"RFC 6750 2.1", "a tab for the blank", http.Header{"Authorization": {"Bearer\t" + good}}, "", ""},
		{"RFC 6750 2.1", "a tab within", http.Header{"Authorization": {"Bearer " + good[:40] + "\t" + good[40:]}}, request, "not of the form"},
		{"RFC 6750 2.1", "quotes", http.Header{"Authorization": {`Bearer "` + good + `"`}}, request, "not of the form"},
		{"RFC 6750 2.1", "a parameter", http.Header{"Authorization": {`Bearer token="` + good + `"`}}, request, "not of the form"},
		{"RFC 6750 2.1", "no token", http.Header{"Authorization": {"Bearer"}}, request, "not of the form"},
		{"RFC 6750 2.1", "letters that no token has", http.Header{"Authorization": {"Bearer t\xf6k\xe9n"}}, request, "not of the form"},
		{"bounds", "a token of more than 16 KiB, signed and all", bearer(long(13 << 10)), request, "the access token is too long"},
		{"bounds", "a token of 30 KiB", bearer(strings.Repeat("a", 30<<10)), request, "the access token is too long"},
	} {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			since := f.mark()
			refused(t, f.get(t, c.header), c.code)
			if c.code != "" {
				f.said(t, since, c.why)
			}
		})
	}
	accepted(t, f.with(t, long(10<<10))) // a long one that is not too long
	accepted(t, f.get(t, http.Header{"Authorization": {"bEARER " + good}}))

	t.Run("RFC 9700 4.3.2/in the query", func(t *testing.T) {
		for _, name := range []string{"access_token", "token", "authorization"} {
			refused(t, f.request(t, "GET", servers+"?"+name+"="+good, nil, nil), "")
		}
		since := f.mark()
		accepted(t, f.request(t, "GET", servers+"?access_token="+other, nil, bearer(good)))
		f.said(t, since, `"path":"`+servers+`"`)
	})
	t.Run("RFC 6750 2.2/in a form", func(t *testing.T) {
		form := url.Values{"access_token": {good}}.Encode()
		a := f.request(t, "POST", publish, strings.NewReader(form), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}})
		refused(t, a, "")
	})
	t.Run("RFC 6585 5/headers of more than 32 KiB", func(t *testing.T) {
		for name, h := range map[string]http.Header{
			"the token": bearer(strings.Repeat("a", 64<<10)),
			"another":   {"Authorization": {"Bearer " + good}, "X-Padding": {strings.Repeat("a", 64<<10)}},
			"many":      {"Authorization": {"Bearer " + good}, "X-Padding": strings.Split(strings.Repeat("aaaa,", 20<<10), ",")},
		} {
			if a := f.get(t, h); a.status != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("%s: %d %.200s", name, a.status, a.body)
			}
		}
	})
	accepted(t, f.with(t, good))
}
