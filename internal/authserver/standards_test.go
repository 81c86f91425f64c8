package authserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/externalauth"
)

// The rules of standards, row by row, that are not in the tables about authorize, token and
// register.

func TestMetadata_Members(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	got := f.get(http.DefaultClient, f.url+wellKnownOAuth).json(t)
	for _, c := range []struct {
		rule, member string
		want         any
	}{
		{"RFC 8414 2, 3.3: that of the location", "issuer", f.url},
		{"RFC 8414 2", "authorization_endpoint", f.url + "/oauth/authorize"},
		{"RFC 8414 2", "token_endpoint", f.url + "/oauth/token"},
		{"RFC 8414 2", "jwks_uri", f.url + "/.well-known/jwks.json"},
		{"RFC 7591 3", "registration_endpoint", f.url + "/oauth/register"},
		{"RFC 7009 2", "revocation_endpoint", f.url + "/oauth/revoke"},
		{"RFC 7662 2", "introspection_endpoint", f.url + "/oauth/introspect"},
		{"RFC 9700 2.1.2: no implicit grant", "response_types_supported", []any{"code"}},
		{"RFC 9700 2.4: no password grant", "grant_types_supported", []any{"authorization_code", "refresh_token"}},
		{"RFC 9700 2.1.1: S256 only", "code_challenge_methods_supported", []any{"S256"}},
		{"RFC 9207 3", "authorization_response_iss_parameter_supported", true},
	} {
		if diff := cmp.Diff(c.want, got[c.member]); diff != "" {
			t.Errorf("%s: %s: %s", c.rule, c.member, diff)
		}
	}
}

// What the client receives at its redirect, whatever the outcome.
func TestAuthorizationResponse(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.client = f.register("http://127.0.0.1/cb?kept=1")
	consent := func(decision string) *answer {
		return f.post(f.browser, pathConsent, url.Values{"login": {f.handle(f.toConsent("redirect_uri", "http://127.0.0.1:7/cb?kept=1"))}, "decision": {decision}})
	}
	for outcome, a := range map[string]*answer{
		"code":  consent("allow"),
		"error": consent("deny"),
		"early": f.get(f.browser, f.request("redirect_uri", "http://127.0.0.1:7/cb?kept=1", "response_type", "token")),
	} {
		to := f.location(a) // RFC 9700 4.12: 303
		q := to.Query()
		for _, c := range []struct {
			rule      string
			got, want any
		}{
			{"RFC 9207 2: iss, once, in errors too", q["iss"], []string{f.url}},
			{"RFC 6749 4.1.2: state, once", q["state"], []string{"s"}},
			{"RFC 6749 3.1.2: the query is retained", q["kept"], []string{"1"}},
			{"RFC 6749 4.1.2.1: either code or error", q.Has("code"), !q.Has("error")},
			{"RFC 9700 4.2.4: no referrer", a.Header.Get("Referrer-Policy"), "no-referrer"},
			{"RFC 6749 5.1: not stored", a.Header.Get("Cache-Control"), "no-store"},
			{"RFC 6749 3.1.2: no fragment", to.Fragment, ""},
			{"RFC 8252 7.3: the port of the request", to.Host, "127.0.0.1:7"},
			{"RFC 9700 4.3.2: no token", q.Has("access_token"), false},
		} {
			if diff := cmp.Diff(c.want, c.got); diff != "" {
				t.Errorf("%s: %s: %s", outcome, c.rule, diff)
			}
		}
	}
}

// decodeJWT returns the header and the claims of a JWT.
func decodeJWT(t *testing.T, token any) (header, claims map[string]any) {
	t.Helper()
	parts := strings.Split(token.(string), ".")
	for i, into := range []*map[string]any{&header, &claims} {
		b, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, into); err != nil {
			t.Fatal(err)
		}
	}
	return header, claims
}

func TestAccessToken_Profile(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	tokens := f.redeem(f.code("scope", "openid email")).json(t)
	again := f.redeem(f.code("scope", "openid email")).json(t)
	header, claims := decodeJWT(t, tokens["access_token"])
	_, claimsAgain := decodeJWT(t, again["access_token"])
	idHeader, idClaims := decodeJWT(t, tokens["id_token"])
	var published []any
	for _, k := range f.get(http.DefaultClient, f.url+pathKeys).json(t)["keys"].([]any) {
		published = append(published, k.(map[string]any)["kid"])
	}
	now := f.now.Unix()
	for _, c := range []struct {
		rule      string
		got, want any
	}{
		{"RFC 9068 2.1: typ", header["typ"], "at+jwt"},
		{"RFC 9068 2.1: signed by an asymmetric key", header["alg"], "ES256"},
		{"RFC 9068 4: its key is published", slices.Contains(published, header["kid"]), true},
		{"RFC 9068 2.2: iss", claims["iss"], f.url},
		{"RFC 9068 2.2, RFC 8707 2: aud is the resource", claims["aud"], testResource},
		{"RFC 9068 2.2: client_id", claims["client_id"], f.client},
		{"RFC 9068 2.2: iat", claims["iat"], float64(now)},
		{"RFC 9068 2.2: exp", claims["exp"], float64(now + 3600)},
		{"RFC 9068 2.2: jti, another each time", claims["jti"] != nil && claims["jti"] != claimsAgain["jti"], true},
		{"RFC 9068 2.2: sub, of the person", claims["sub"] != "" && claims["sub"] == claimsAgain["sub"], true},
		{"RFC 9068 6: sub reveals nothing", strings.Contains(claims["sub"].(string), "ann"), false},
		{"RFC 9068 2.2.3: scope", claims["scope"], "openid email"},
		{"RFC 6749 5.1: expires_in", tokens["expires_in"], 3600.0},
		{"RFC 9068 5: an ID token has another type", idHeader["typ"], "JWT"},
		{"OpenID Connect Core 2: its aud is the client", idClaims["aud"], f.client},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", c.rule, diff)
		}
	}
}

// Each row revokes one thing in a session of its own.
func TestRevoke(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	stranger := f.register("https://other.example/cb")
	const access, refresh, identity = "access_token", "refresh_token", "id_token"
	for _, c := range []struct {
		rule   string
		token  string // which of the tokens, or another text
		form   url.Values
		status int
		fault  string
		ended  bool
	}{
		{rule: "RFC 7009 2.1: a refresh token ends the grant", token: refresh, status: 200, ended: true},
		{rule: "RFC 7009 2.1: an access token does, too", token: access, status: 200, ended: true},
		{rule: "RFC 7009 2.1: a wrong hint does not count", token: refresh, form: url.Values{"token_type_hint": {"access_token"}}, status: 200, ended: true},
		{rule: "RFC 7009 2.1: an unknown hint does not count", token: access, form: url.Values{"token_type_hint": {"x"}}, status: 200, ended: true},
		{rule: "RFC 7009 2.1: of another client", token: refresh, form: url.Values{"client_id": {stranger}}, status: 200},
		{rule: "RFC 7009 2.2: an unknown token", token: "x", status: 200},
		{rule: "RFC 7009 2.2: an ID token is none", token: identity, status: 200},
		{rule: "RFC 7009 2.1: no token", token: "", status: 400, fault: "invalid_request"},
		{rule: "RFC 7009 2.1: an unknown client", token: refresh, form: url.Values{"client_id": {"x"}}, status: 401, fault: "invalid_client"},
		{rule: "RFC 6749 3.2: a parameter twice", token: refresh, form: url.Values{"client_id": {f.client, f.client}}, status: 400, fault: "invalid_request"},
	} {
		tokens := f.redeem(f.code()).json(t)
		text := c.token
		if named, ok := tokens[c.token].(string); ok {
			text = named
		}
		form := url.Values{"token": {text}, "client_id": {f.client}}
		if text == "" {
			form.Del("token")
		}
		for name, values := range c.form {
			form[name] = values
		}
		a := f.post(http.DefaultClient, pathRevoke, form)
		if a.StatusCode != c.status {
			t.Errorf("%s: %d %s", c.rule, a.StatusCode, a.body)
		}
		if c.fault != "" {
			f.refuses(a, c.fault)
		}
		if ended := f.refreshing(tokens[refresh].(string)).json(t)["error"] == "invalid_grant"; ended != c.ended {
			t.Errorf("%s: ended: %t", c.rule, ended)
		}
	}
}

func TestIntrospect(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	stranger := f.register("https://other.example/cb")
	tokens := f.redeem(f.code("scope", "openid email")).json(t)
	former := tokens["refresh_token"].(string)
	refreshed := f.refreshing(former).json(t)
	access, refresh := refreshed["access_token"].(string), refreshed["refresh_token"].(string)
	header, _, _ := strings.Cut(access, ".")
	ask := func(token, client string) *answer {
		return f.post(http.DefaultClient, pathIntrospect, url.Values{"token": {token}, "client_id": {client}})
	}
	for _, c := range []struct {
		rule, token, client string
		active              bool
	}{
		{"RFC 7662 2.2: an access token", access, f.client, true},
		{"RFC 7662 2.2: a refresh token", refresh, f.client, true},
		{"RFC 7662 2.2: of another client", access, stranger, false},
		{"RFC 7662 2.2: unknown", "x", f.client, false},
		{"RFC 7662 2.2: empty", "", f.client, false},
		{"RFC 7662 4: a refresh token that was rotated", former, f.client, false},
		{"RFC 7662 4: another signature", access[:len(access)-8] + "AAAAAAAA", f.client, false},
		{"RFC 7515 3.1: without a signature", "eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0." + strings.Split(access, ".")[1] + ".", f.client, false},
		{"RFC 9068 4: claims of an ID token", header + "." + strings.SplitN(tokens["id_token"].(string), ".", 2)[1], f.client, false},
		{"RFC 9068 4: an ID token", tokens["id_token"].(string), f.client, false},
	} {
		a := ask(c.token, c.client)
		got := a.json(t)
		if got["active"] != c.active {
			t.Errorf("%s: %v", c.rule, got)
		}
		if !c.active && len(got) != 1 { // RFC 7662 2.2: nothing else about it
			t.Errorf("%s: it reveals %v", c.rule, got)
		}
		if a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: Cache-Control %q", c.rule, a.Header.Get("Cache-Control"))
		}
	}
	f.refuses(f.post(http.DefaultClient, pathIntrospect, url.Values{"token": {access}}), "invalid_client") // RFC 7662 2.1
	got := ask(access, f.client).json(t)
	if got["sub"] == nil || got["client_id"] != f.client || got["scope"] != "openid email" || got["iss"] != f.url || got["aud"] != testResource {
		t.Errorf("RFC 7662 2.2: %v", got)
	}
	f.now = f.now.Add(time.Hour + time.Second)
	if got := ask(access, f.client).json(t); got["active"] != false {
		t.Errorf("RFC 7662 2.2: expired, and %v", got)
	}
}

// What is registered is returned, and what does not count is ignored.
func TestRegister_Returns(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.Spec.BaselineClientScopes = []string{"openid"} })
	for _, c := range []struct {
		rule, body string
		want       map[string]any
	}{
		{
			"RFC 7591 2: the defaults", `{"redirect_uris":["https://a.example/"]}`,
			map[string]any{
				"redirect_uris": []any{"https://a.example/"}, "token_endpoint_auth_method": "none", "grant_types": []any{"authorization_code"}, "response_types": []any{"code"},
				"scope": "openid profile email offline_access",
			},
		},
		{
			"RFC 7591 2: unknown metadata, and those in languages, are ignored",
			`{"redirect_uris":["cursor://a/b"],"client_name":"A","client_name#de":"B","jwks":{"keys":[]},"x":{"y":1},"grant_types":["authorization_code","refresh_token","urn:x"],"scope":"email unknown"}`,
			map[string]any{
				"redirect_uris": []any{"cursor://a/b"}, "client_name": "A", "token_endpoint_auth_method": "none", "grant_types": []any{"authorization_code", "refresh_token"}, "response_types": []any{"code"},
				"scope": "openid email", // with the baseline
			},
		},
		{
			"a client_id of the client's own does not count", `{"redirect_uris":["https://a.example/"],"client_id":"mine","client_secret":"mine","client_id_issued_at":1,"scope":"email"}`,
			map[string]any{
				"redirect_uris": []any{"https://a.example/"}, "token_endpoint_auth_method": "none", "grant_types": []any{"authorization_code"}, "response_types": []any{"code"}, "scope": "openid email",
			},
		},
	} {
		a := f.registering(c.body)
		got := a.json(t)
		if a.StatusCode != http.StatusCreated || a.Header.Get("Cache-Control") != "no-store" || got["client_id"] == nil || got["client_id"] == "mine" || got["client_id_issued_at"] != float64(f.now.Unix()) { // RFC 7591 3.2.1
			t.Fatalf("%s: %d %v", c.rule, a.StatusCode, got)
		}
		delete(got, "client_id")
		delete(got, "client_id_issued_at")
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.rule, diff)
		}
	}
}

// RFC 8707: at each of the three places, every resource must be this one.
func TestResource_AtEachPlace(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.client = f.register("http://127.0.0.1/cb")
	const redirect = "http://127.0.0.1:7/cb"
	login := func() (code string) {
		a := f.post(f.browser, pathConsent, url.Values{"login": {f.handle(f.toConsent("redirect_uri", redirect))}, "decision": {"allow"}})
		return f.location(a).Query().Get("code")
	}
	refresh := f.redeem(login(), "redirect_uri", redirect).json(t)["refresh_token"].(string)
	for _, resources := range [][]string{{"https://other.example/mcp"}, {testResource, "https://other.example/mcp"}, {testResource + "#f"}, {testResource + "/x"}, {"x"}} {
		if q := f.location(f.get(f.browser, f.request("redirect_uri", redirect, "resource", "")+"&"+url.Values{"resource": resources}.Encode())).Query(); q.Get("error") != "invalid_target" {
			t.Errorf("authorize: %v: %v", resources, q)
		}
		form := url.Values{"client_id": {f.client}, "resource": resources, "code": {login()}, "code_verifier": {f.verifier}, "redirect_uri": {redirect}, "grant_type": {"authorization_code"}}
		f.refuses(f.post(http.DefaultClient, pathToken, form), "invalid_target")
		form.Del("resource")
		if a := f.post(http.DefaultClient, pathToken, form); a.StatusCode != http.StatusOK {
			t.Errorf("the refused resource used the code up: %s", a.body)
		}
		f.refuses(f.post(http.DefaultClient, pathToken, url.Values{"client_id": {f.client}, "resource": resources, "refresh_token": {refresh}, "grant_type": {"refresh_token"}}), "invalid_target")
	}
	if got := f.refreshing(refresh, "resource", testResource+"/").json(t); got["access_token"] == nil {
		t.Errorf("the resource with a slash at its end: %v", got)
	}
}

// A new signing key signs. Tokens of the former one hold until it is removed.
func TestKeys_SigningRotates(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{}
	for _, name := range []string{"a", "b"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		secrets[name] = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	f := newFixture(t, func(c *Config) {
		c.Spec.SigningKeySecretRefs = []externalauth.SecretRef{{Name: "s", Key: "a"}}
		c.Secret = func(r externalauth.SecretRef) (string, error) { return secrets[r.Key], nil }
	})
	use := func(names ...string) {
		f.signing.mu.Lock()
		defer f.signing.mu.Unlock()
		f.signing.refs, f.signing.read = nil, time.Now().Add(-2*reload)
		for _, name := range names {
			f.signing.refs = append(f.signing.refs, externalauth.SecretRef{Name: "s", Key: name})
		}
	}
	active := func(token any) bool {
		return f.post(http.DefaultClient, pathIntrospect, url.Values{"token": {token.(string)}, "client_id": {f.client}}).json(t)["active"] == true
	}
	former := f.redeem(f.code()).json(t)["access_token"]
	use("b", "a")
	next := f.redeem(f.code()).json(t)["access_token"]
	before, _ := decodeJWT(t, former)
	after, _ := decodeJWT(t, next)
	if before["kid"] == after["kid"] || !active(former) || !active(next) {
		t.Errorf("former %v, next %v: %t, %t", before["kid"], after["kid"], active(former), active(next))
	}
	keys := f.get(http.DefaultClient, f.url+pathKeys).json(t)["keys"].([]any)
	if len(keys) != 2 || keys[0].(map[string]any)["kid"] != after["kid"] || keys[1].(map[string]any)["kid"] != before["kid"] {
		t.Errorf("published: %v", keys)
	}
	use("b")
	if active(former) || !active(next) {
		t.Errorf("after the removal: %t, %t", active(former), active(next))
	}
	secrets["b"] = "not a key"
	use("b")
	if !active(next) { // a fault in a secret stops nothing
		t.Error("a broken secret ended the tokens")
	}
}
