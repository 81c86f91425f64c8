//go:build integration

package registry

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/toolhaven/toolhaven/test/idp"
	"github.com/toolhaven/toolhaven/test/tokens"
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
		{"RFC 7518 3.4", "a JWT of the third, by ES256", tokens.Mint(t, f.c.SigningKey(), claims(f.c.Issuer, nil))},
		{"spec 5.4", "a JWT of the provider whose tokens else are opaque", tokens.Mint(t, f.d.SigningKey(), claims(f.d.Issuer, nil))},
		{"RFC 7519 4.1.3", "ours among other audiences", tokens.Mint(t, f.a.SigningKey(), claims(f.a.Issuer, map[string]any{"aud": []string{"https://x.example", resource}}))},
		{"RFC 7515 4.1.4", "no key id", tokens.Forge(t, f.a.SigningKey(), `{"alg":"RS256"}`, claims(f.a.Issuer, nil))},
		{"RFC 9068 2.1", "typed as application/at+jwt", tokens.Forge(t, f.a.SigningKey(), `{"alg":"RS256","kid":"shared","typ":"application/AT+JWT"}`, claims(f.a.Issuer, nil))},
		{"RFC 7519 2", "an expiry with a fraction", tokens.Mint(t, f.a.SigningKey(), claims(f.a.Issuer, map[string]any{"exp": json.Number(fmt.Sprintf("%d.75", time.Now().Add(time.Minute).Unix()))}))},
		{"decisions", "our clock is 20 s behind: it starts soon", tokens.Mint(t, f.a.SigningKey(), claims(f.a.Issuer, map[string]any{"nbf": time.Now().Add(20 * time.Second).Unix(), "iat": time.Now().Add(20 * time.Second).Unix()}))},
	} {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) { accepted(t, f.with(t, c.token)) })
	}
	// Made when it is shown: 10 s later it is refused.
	t.Run("decisions/our clock is 20 s ahead: it has just expired", func(t *testing.T) {
		accepted(t, f.with(t, tokens.Mint(t, f.a.SigningKey(), claims(f.a.Issuer, map[string]any{"exp": time.Now().Add(-20 * time.Second).Unix()}))))
	})
	person := f.a.UserTokens(t, "jo", resource, "mcp-registry:read")
	accepted(t, f.with(t, person.AccessToken))
}

// badToken is a row of the tables: a token that must not be accepted.
type badToken struct {
	rule, name, token string
	// code is the error of RFC 6750 section 3.1, why a part of the reason in the log.
	code, why string
}

func (f *family) refuses(t *testing.T, rows []badToken) {
	for _, c := range rows {
		f.refuse(t, tokens.Row{Rule: c.rule, Name: c.name, Header: tokens.Bearer(c.token), Code: c.code, Why: c.why})
	}
}

func (f *family) refuse(t *testing.T, rows ...tokens.Row) {
	for _, c := range rows {
		t.Run(c.Rule+"/"+c.Name, func(t *testing.T) {
			since := f.mark()
			refused(t, f.get(t, c.Header), c.Code)
			if c.Why != "" {
				f.said(t, since, c.Why)
			}
		})
	}
}

const invalid = tokens.InvalidToken

func TestTokens_WrongProvider(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	a, b, c := f.a.SigningKey(), f.b.SigningKey(), f.c.SigningKey()
	named := func(key jose.JSONWebKey, id string) jose.JSONWebKey { key.KeyID = id; return key }
	revoked := f.d.Token(t, resource)
	f.d.Revoke(t, revoked)
	person := f.c.UserTokens(t, "jo", resource, "offline_access", "mcp-registry:read")
	f.refuses(t, []badToken{
		{"RFC 8725 3.8", "signed by a, says it is b's, with b's audience", tokens.Mint(t, a, claims(f.b.Issuer, map[string]any{"aud": otherResource})), invalid, "idp1: its signature is not valid"},
		{"RFC 8725 3.8", "signed by b, says it is a's", tokens.Mint(t, b, claims(f.a.Issuer, nil)), invalid, "idp0: its signature is not valid"},
		{"RFC 8725 3.8", "signed by c under a's key id, says it is a's", tokens.Forge(t, c, `{"alg":"ES256","kid":"shared"}`, claims(f.a.Issuer, nil)), invalid, "idp0: no key of the provider fits"},
		{"RFC 8725 3.8", "signed by a under c's key id, says it is c's", tokens.Mint(t, named(a, c.KeyID), claims(f.c.Issuer, nil)), invalid, "idp2: no key of the provider fits"},
		{"RFC 8725 3.8", "signed by a, says it is c's", tokens.Mint(t, a, claims(f.c.Issuer, nil)), invalid, "idp2: no key of the provider has the token's key id"},
		{"RFC 7519 4.1.3", "b's real token for a's audience", f.b.Token(t, resource), invalid, "idp1: the audience does not match"},
		{"RFC 7519 4.1.3", "a's real token for b's audience", f.a.Token(t, otherResource), invalid, "idp0: the audience does not match"},
		{"RFC 7519 4.1.3", "a's real token for nobody we know", f.a.Token(t, "https://elsewhere.example"), invalid, "idp0: the audience does not match"},
		{"RFC 7519 4.1.1", "an issuer that nobody configured", tokens.Mint(t, a, claims("https://issuer.example", nil)), invalid, "skipped: the token names another issuer"},
		{"RFC 7519 4.1.1", "the issuer with a slash behind it", tokens.Mint(t, a, claims(f.a.Issuer+"/", nil)), invalid, "another issuer"},
		{"RFC 7519 4.1.1", "the issuer in capitals", tokens.Mint(t, a, claims(strings.ToUpper(f.a.Issuer), nil)), invalid, "another issuer"},
		{"RFC 7519 4.1.1", "the issuer with a blank behind it", tokens.Mint(t, a, claims(f.a.Issuer+" ", nil)), invalid, "another issuer"},
		{"RFC 7519 4.1.1", "two issuers", tokens.Mint(t, a, claims("", map[string]any{"iss": []string{f.a.Issuer, f.b.Issuer}})), invalid, "another issuer"},
		{"RFC 7519 4.1.1", "no issuer", tokens.Mint(t, a, claims("", map[string]any{"iss": nil})), invalid, "another issuer"},
		{"RFC 7662 2.2", "an opaque token that was revoked", revoked, invalid, "the provider reports that the token is not active"},
		{"RFC 7662 4", "an opaque token for another resource", f.c.Token(t, "https://elsewhere.example"), invalid, "idp2: the audience does not match"},
		{"RFC 7662 4", "a refresh token, which is active too", person.RefreshToken, invalid, "idp2: the audience does not match"},
		{"RFC 7662 2.2", "an opaque token nobody issued", "b3BhcXVlLW9mLW5vYm9keS1hdC1hbGw", invalid, "idp3: "},
		{"RFC 7662 2.2", "a JWT that fails and is not known to be active either", tokens.Mint(t, named(a, "x"), claims(f.d.Issuer, nil)), invalid, "idp3: "},
	})
}

// Samples of internal/auth's TestHostileTokens, and what only the program as a whole
// shows: nothing that a token names is fetched.
func TestTokens_Forged(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	key := f.a.SigningKey()
	mallory := tokens.NewKey(t, "shared")
	trap := newRogue(t) // of the forger: it must receive no request
	trap.says("/jwks", keySet(mallory))
	f.refuse(t, tokens.Forged(t, tokens.Issuer{URL: f.a.Issuer, Audience: resource, Key: key}, mallory, trap.URL)...)
	if n := trap.hits.Load(); n != 0 {
		t.Errorf("the forger's server was asked %d times", n)
	}
	// What is not looked at does no harm either.
	accepted(t, f.with(t, tokens.Forge(t, key, `{"alg":"RS256","kid":"shared","jku":"`+trap.URL+`/jwks","x5u":7,"jwk":{},"x5c":[]}`, claims(f.a.Issuer, nil))))
	accepted(t, f.with(t, tokens.Mint(t, key, claims(f.a.Issuer, nil))))
}

// Samples of internal/auth's tables of claims, and claims that these do not have.
func TestTokens_InvalidClaims(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	f.refuse(t, tokens.InvalidClaims(t, tokens.Issuer{URL: f.a.Issuer, Audience: resource, Key: f.a.SigningKey()})...)
}

// The form of a credential is checked before its content.
func TestTokens_MalformedCredentials(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	good := f.a.Token(t, resource, "mcp-registry:read", "mcp-registry:write")
	other := f.a.Token(t, resource, "mcp-registry:read")
	f.remember(good, other)
	issuer := tokens.Issuer{URL: f.a.Issuer, Audience: resource, Key: f.a.SigningKey()}
	f.refuse(t, tokens.Malformed(good, other, issuer.Long(t, 13<<10))...)
	accepted(t, f.with(t, tokens.Mint(t, issuer.Key, claims(issuer.URL, map[string]any{"pad": strings.Repeat("x", 10<<10)})))) // a long one that is not too long
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
