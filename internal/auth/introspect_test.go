package auth

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

func TestIntrospection(t *testing.T) {
	p := newIssuer(t)
	now := time.Now()
	exp := now.Add(time.Hour).Unix()
	v := newValidator(t, p.introspecting("main"))
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprintf("https://audience.example/%d", i)
	}
	type answer = map[string]any
	for _, c := range []struct {
		rule, name string
		answer     any
		want       string
	}{
		{"RFC 7662 2.2", "active", answer{"active": true, "aud": "registry", "exp": exp, "iss": p.URL, "sub": "jo", "groups": []string{"x"}}, ""},
		{"RFC 7662 2.2", "without iss and exp", answer{"active": true, "aud": []string{"registry"}}, ""},
		{"RFC 7662 2.2", "its audience among 10,000", answer{"active": true, "aud": slices.Concat(many, []string{"registry"})}, ""},
		{"RFC 7662 2.2", "issued by a clock that is ahead", answer{"active": true, "aud": "registry", "iat": now.Add(5 * time.Second).Unix()}, ""},
		{"RFC 6749 1.5", "a refresh token, which is active", answer{"active": true, "aud": "registry", "exp": exp, "token_use": "refresh_token"}, "another use"},
		{"RFC 6749 1.5", "a use that is a list", answer{"active": true, "aud": "registry", "token_use": []string{"access_token"}}, "another use"},
		{"RFC 6749 1.5", "an access token by its use", answer{"active": true, "aud": "registry", "token_use": "access_token"}, ""},
		{"RFC 7662 2.2", "inactive", answer{"active": false, "aud": "registry"}, "not active"},
		{"RFC 7662 2.2", "no active", answer{"aud": "registry", "exp": exp, "iss": p.URL}, "whether the token is active"},
		{"RFC 7662 2.2", "active as text", answer{"active": "true", "aud": "registry"}, "whether the token is active"},
		{"RFC 7662 2.2", "active as a number", answer{"active": 1, "aud": "registry"}, "whether the token is active"},
		{"RFC 7662 2.2", "active in capitals", answer{"ACTIVE": true, "aud": "registry"}, "whether the token is active"},
		{"RFC 7662 2.2", "active as null", answer{"active": nil, "aud": "registry"}, "whether the token is active"},
		{"RFC 7662 4", "without an audience", answer{"active": true}, "audience"},
		{"RFC 7662 4", "for another audience", answer{"active": true, "aud": "x"}, "audience"},
		{"RFC 7662 4", "for 10,000 others", answer{"active": true, "aud": many}, "audience"},
		{"RFC 7662 4", "an object as audience", answer{"active": true, "aud": answer{"registry": 1}}, "audience"},
		{"RFC 7662 2.2", "of another issuer", answer{"active": true, "aud": "registry", "iss": "https://x"}, "issuer"},
		{"RFC 7662 2.2", "of the issuer with a slash", answer{"active": true, "aud": "registry", "iss": p.URL + "/"}, "issuer"},
		{"RFC 7662 2.2", "of an issuer that is null", answer{"active": true, "aud": "registry", "iss": nil}, "issuer"},
		{"RFC 7662 2.2", "expired", answer{"active": true, "aud": "registry", "exp": 1}, "expired"},
		{"decisions", "expired a second ago", answer{"active": true, "aud": "registry", "exp": now.Add(-time.Second).Unix()}, "expired"},
		{"RFC 7662 2.2", "expiry of the wrong type", answer{"active": true, "aud": "registry", "exp": true}, "no expiry"},
		{"RFC 7662 2.2", "expiry as text", answer{"active": true, "aud": "registry", "exp": fmt.Sprint(exp)}, "no expiry"},
		{"RFC 7662 2.2", "not valid yet", answer{"active": true, "aud": "registry", "nbf": exp}, "not valid yet"},
		{"RFC 7662 2.2", "a subject that is a list", answer{"active": true, "aud": "registry", "sub": []string{"jo"}}, "subject"},
		{"RFC 7662 2.2", "an array", []answer{{"active": true, "aud": "registry"}}, "not a JSON object"},
		{"RFC 7662 2.2", "true", true, "not a JSON object"},
		{"RFC 7662 2.2", "a string", "active", "not a JSON object"},
		{"RFC 7662 2.2", "null", nil, "not a JSON object"},
	} {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			token := "opaque-" + strings.ReplaceAll(c.name, " ", "-")
			token = strings.ReplaceAll(token, ",", "")
			p.activate(token, c.answer)
			id, err := v.Validate(t.Context(), token)
			if c.want != "" {
				if err == nil || !strings.Contains(reasons(err), c.want) {
					t.Errorf("got %s", reasons(err))
				}
				return
			}
			if err != nil {
				t.Fatal(reasons(err))
			}
			if c.name == "active" && (len(id.Claims["groups"].([]any)) != 1 || id.Subject != "jo") {
				t.Errorf("something was lost: %+v", id)
			}
			before := p.asked.Load()
			if _, err := v.Validate(t.Context(), token); err != nil || p.asked.Load() != before {
				t.Error("the verdict was not cached")
			}
		})
	}
}

// Endpoints that are out of order, or worse. A token is refused, the log can name
// the URL, and nothing waits for long.
func TestIntrospection_HostileEndpoints(t *testing.T) {
	gzipBomb()
	p := newIssuer(t)
	elsewhere := newIssuer(t)
	elsewhere.serve(introspectPath, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"active":true,"aud":"registry"}`)
	})
	const good = `{"active":true,"aud":"registry"}`
	for _, c := range []struct {
		rule, name string
		answer     http.HandlerFunc
		want       string
	}{
		{"RFC 7662 2.2", "active twice", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"active":false,"active":true,"aud":"registry"}`)
		}, "two members"},
		{"RFC 7662 2.2", "a web page with 200", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, "<html>"+good)
		}, "web page"},
		{"RFC 7662 2.3", "401", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(401)
			fmt.Fprint(w, good)
		}, "401"},
		{"RFC 9110 15.4", "a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+introspectPath, http.StatusTemporaryRedirect)
		}, "redirect"},
		{"RFC 9110 15.3", "201", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			fmt.Fprint(w, good)
		}, "201"},
		{"bounds", "an answer without end", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, `{"active":true,"aud":"registry","x":"`)
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, "larger than"},
		{"bounds", "a gzip bomb", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			writeBomb(w)
		}, "larger than"},
		{"RFC 9112 8", "an answer cut short", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, good)
		}, "unexpected EOF"},
		{"RFC 9112 8", "a connection cut off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		{"RFC 8259", "half of an object", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, good[:20]) }, "not JSON"},
		{"RFC 8259", "two objects", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, good+good) }, "not JSON"},
		{"RFC 8259", "nothing", func(http.ResponseWriter, *http.Request) {}, "not a JSON object"},
	} {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			p.serve(introspectPath, c.answer)
			v := newValidator(t, p.introspecting("main"))
			token := "secret-opaque-token"
			_, err := v.Validate(t.Context(), token)
			why := reasons(err)
			if err == nil || !strings.Contains(why, c.want) || !strings.Contains(why, p.URL+introspectPath) {
				t.Errorf("got %s", why)
			}
			if strings.Contains(why, token) {
				t.Errorf("the token is in %s", why)
			}
		})
	}
	if elsewhere.asked.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

func TestIntrospection_RejectedJWT(t *testing.T) {
	p, other := newIssuer(t), newIssuer(t)
	s := newSigner(t, jose.ES256, "k1") // published nowhere
	p.publish(newSigner(t, jose.ES256, "k2"))
	v := newValidator(t, other.introspecting("other"), p.introspecting("main"))
	token := s.sign(t, "", p.claims(nil))
	p.activate(token, map[string]any{"active": true, "aud": "registry"})
	if id, err := v.Validate(t.Context(), token); err != nil || id.Provider != "main" {
		t.Errorf("got %+v, %s", id, reasons(err))
	}
	if other.asked.Load() != 0 {
		t.Error("a provider of another issuer saw the token")
	}
}

func TestIntrospection_ProviderOrder(t *testing.T) {
	first, second := newIssuer(t), newIssuer(t)
	v := newValidator(t, first.introspecting("first"), second.provider("never"), second.introspecting("second"))
	v.patience = time.Minute // the first one may take its time on a busy machine
	both := map[string]any{"active": true, "aud": "registry"}
	first.activate("both", both)
	second.activate("both", both)
	second.activate("late", both)
	for token, want := range map[string]string{"both": "first", "late": "second"} {
		if id, err := v.Validate(t.Context(), token); err != nil || id.Provider != want {
			t.Errorf("%s: %+v, %s", token, id, reasons(err))
		}
	}
	if n := second.asked.Load(); n != 1 {
		t.Errorf("the second provider was asked %d times; the first had accepted one token", n)
	}
	_, err := v.Validate(t.Context(), "nobodys")
	if why := reasons(err); strings.Index(why, "first:") > strings.Index(why, "never:") || strings.Index(why, "never:") > strings.Index(why, "second:") {
		t.Errorf("not in the order of the configuration: %s", why)
	}
}

func TestIntrospection_ConcurrentRequests(t *testing.T) {
	p := newIssuer(t)
	answer := p.routes[introspectPath]
	release := make(chan struct{})
	p.serve(introspectPath, func(w http.ResponseWriter, r *http.Request) {
		<-release
		answer(w, r)
	})
	p.activate("opaque", map[string]any{"active": true, "aud": "registry"})
	v := newValidator(t, p.introspecting("main"))
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := v.Validate(context.Background(), "opaque"); err != nil {
				t.Error(reasons(err))
			}
		})
	}
	eventually(t, "the provider is asked", func() bool { return p.asked.Load() > 0 })
	close(release)
	all.Wait()
	// One that has looked for the answer just before it was there.
	if _, rejection := v.decide(t.Context(), sha256.Sum256([]byte("opaque")), "opaque"); rejection != nil {
		t.Error(reasons(rejection))
	}
	if n := p.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestIntrospection_Cache(t *testing.T) {
	p := newIssuer(t)
	c := stopped()
	v := newValidatorWith(t, Options{Now: c.now}, p.introspecting("main"))
	asked := func() int32 {
		before := p.asked.Load()
		v.Validate(t.Context(), "opaque")
		return p.asked.Load() - before
	}
	if asked() != 1 || asked() != 0 {
		t.Error("a refusal is not remembered for a moment")
	}
	p.activate("opaque", map[string]any{"active": true, "aud": "registry", "exp": c.now().Add(90 * time.Second).Unix()})
	c.advance(refusalFor)
	if asked() != 1 {
		t.Error("a refusal is remembered for longer than a moment")
	}
	if _, err := v.Validate(t.Context(), "opaque"); err != nil {
		t.Fatal(reasons(err))
	}
	c.advance(cacheFor - time.Second)
	if asked() != 0 {
		t.Error("an acceptance is not cached")
	}
	c.advance(2 * time.Second)
	if asked() != 1 {
		t.Error("an acceptance is cached for longer than a minute")
	}
	c.advance(30 * time.Second)
	if _, err := v.Validate(t.Context(), "opaque"); err == nil {
		t.Error("an acceptance is cached beyond the token's end")
	}
	// An unreachable provider has refused nothing.
	p.down.Store(true)
	v.Validate(t.Context(), "other")
	p.down.Store(false)
	p.activate("other", map[string]any{"active": true, "aud": "registry"})
	if _, err := v.Validate(t.Context(), "other"); err != nil {
		t.Error("an outage is remembered: ", reasons(err))
	}
}

// The client's credential goes before the token file's; both are read anew for
// each request, as Kubernetes swaps them.
func TestIntrospection_ClientAuthentication(t *testing.T) {
	p := newIssuer(t)
	dir := t.TempDir()
	swap := func(content map[string]string) { swapMount(t, dir, content) }
	swap(map[string]string{"secret": "s: 1/+\n", "token": "t1"})
	withClient := p.introspecting("client")
	withClient.ClientID, withClient.ClientSecretFile = "me &co", filepath.Join(dir, "secret")
	withClient.AuthTokenFile = filepath.Join(dir, "token")
	withToken := p.introspecting("token")
	withToken.AuthTokenFile = filepath.Join(dir, "token")
	basic := func(user, secret string) string {
		r := httptest.NewRequest("GET", "/", nil)
		r.SetBasicAuth(user, secret)
		return r.Header.Get("Authorization")
	}
	n := 0
	for _, c := range []struct {
		name     string
		provider Provider
		before   func()
		want     string
	}{
		{"nothing", p.introspecting("none"), nil, ""},
		// RFC 6749 section 2.3.1: both are form-encoded.
		{"a client with a token file", withClient, nil, basic("me+%26co", "s%3A+1%2F%2B")},
		{"a token file", withToken, nil, "Bearer t1"},
		{"a client, after a swap", withClient, func() { swap(map[string]string{"secret": "s2", "token": "t2"}) }, basic("me+%26co", "s2")},
		{"a token file, after a swap", withToken, nil, "Bearer t2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.before != nil {
				c.before()
			}
			v := newValidator(t, c.provider)
			n++
			v.Validate(t.Context(), fmt.Sprintf("opaque-%d", n))
			if got := p.credential(introspectPath); got != c.want {
				t.Errorf("sent %q, want %q", got, c.want)
			}
		})
	}
	v := newValidator(t, withClient)
	for word, content := range map[string]string{"empty": " \n", "more than one line": "a\nb", "too large": strings.Repeat("x", 64<<10+1)} {
		swap(map[string]string{"secret": content})
		n++
		before := p.asked.Load()
		_, err := v.Validate(t.Context(), fmt.Sprintf("opaque-%d", n))
		if err == nil || !strings.Contains(reasons(err), word) || p.asked.Load() != before {
			t.Errorf("a secret that is %s: %s", word, reasons(err))
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Validate(t.Context(), "opaque-last"); err == nil || !strings.Contains(reasons(err), "read credential") {
		t.Errorf("no secret: %s", reasons(err))
	}
}

func FuzzIntrospection(f *testing.F) {
	f.Add([]byte(`{"active":true,"aud":"registry","iss":"https://issuer.example","exp":4102444800,"scope":"a b"}`))
	f.Add([]byte(`{"active":"true","aud":["registry"]}`))
	f.Add([]byte(`[{"active":true}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		claims, r := decodeIntrospection(body)
		if (claims == nil) == (r == nil) {
			t.Fatalf("%v and %v", claims, r)
		}
		if r != nil {
			return
		}
		if claims["active"] != true {
			t.Fatalf("accepted with active %v", claims["active"])
		}
		p := &Provider{IssuerURL: "https://issuer.example", Audience: "registry"}
		s := subject{claims: claims, provider: p, now: time.Unix(4000000000, 0), introspected: true}
		if _, r := s.check(); r == nil {
			// Nothing passes that encoding/json would read otherwise.
			var c struct {
				Active bool
				Aud    any
			}
			if json.Unmarshal(body, &c) == nil && !strings.Contains(fmt.Sprint(c.Aud), "registry") {
				t.Fatalf("accepted for %v", c.Aud)
			}
		}
	})
}

// A provider that only introspects needs no issuer: its endpoint vouches for the tokens.
func TestIntrospection_Only(t *testing.T) {
	t.Parallel()
	p := newIssuer(t)
	key := newSigner(t, jose.ES256, "k1")
	p.publish(key)
	only := Provider{Name: "main", Audience: "registry", IntrospectionURL: p.URL + introspectPath, IntrospectionOnly: true}
	v := newValidator(t, only)
	exp := time.Now().Add(time.Hour).Unix()
	type answer = map[string]any
	jwt := key.sign(t, "", p.claims(nil))
	for _, c := range []struct {
		name, token string
		answer      any
		issuer      string // "" is refused
	}{
		{"without iss", "opaque-1", answer{"active": true, "aud": "registry", "exp": exp}, p.URL + introspectPath},
		{"with iss", "opaque-2", answer{"active": true, "aud": "registry", "iss": "https://issuer.example"}, "https://issuer.example"},
		{"with an iss that is not text", "opaque-3", answer{"active": true, "aud": "registry", "iss": 7}, ""},
		{"for another audience", "opaque-4", answer{"active": true, "aud": "x"}, ""},
		{"inactive", "opaque-5", answer{"active": false}, ""},
		{"a JWT that is active", jwt, answer{"active": true, "aud": "registry"}, p.URL + introspectPath},
		{"a JWT that is not", key.sign(t, "", p.claims(answer{"sub": "other"})), answer{"active": false}, ""},
	} {
		p.activate(c.token, c.answer)
		id, err := v.Validate(t.Context(), c.token)
		if (err == nil) != (c.issuer != "") || err == nil && id.Issuer != c.issuer {
			t.Errorf("%s: %+v, %s", c.name, id, reasons(err))
		}
	}
	v.FetchKeys()
	if n := p.fetches.Load(); n != 0 {
		t.Errorf("keys were fetched %d times", n)
	}
}

func TestIntrospection_ClientSecretFromMemory(t *testing.T) {
	t.Parallel()
	p := newIssuer(t)
	provider := p.introspecting("main")
	provider.ClientID = "gateway"
	var fault error
	provider.ClientSecret = func() (string, error) { return "a secret: of+it", fault }
	v := newValidator(t, provider)
	p.activate("opaque-1", map[string]any{"active": true, "aud": "registry"})
	if _, err := v.Validate(t.Context(), "opaque-1"); err != nil {
		t.Error(reasons(err))
	}
	sent := http.Request{Header: http.Header{"Authorization": {p.credential(introspectPath)}}}
	// RFC 6749 section 2.3.1: both are form-encoded.
	if id, secret, _ := sent.BasicAuth(); id != "gateway" || secret != "a+secret%3A+of%2Bit" {
		t.Errorf("sent %q", p.credential(introspectPath))
	}
	fault = errClosed
	if _, err := v.Validate(t.Context(), "opaque-2"); err == nil {
		t.Error("a token was accepted without the secret")
	}
}

func TestProvider_AllowHTTP(t *testing.T) {
	t.Parallel()
	p := Provider{Name: "main", IssuerURL: "http://idp.example", Audience: "registry", JWKSURL: "http://idp.example/keys"}
	if err := p.Validate(); err == nil {
		t.Error("plain HTTP was accepted")
	}
	p.AllowHTTP = true
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	p.IssuerURL = "ftp://idp.example"
	if err := p.Validate(); err == nil {
		t.Error("FTP was accepted")
	}
}
