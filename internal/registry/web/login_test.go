package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/auth"
)

// fakeProvider responds as a test configures it, also as no real provider does. What a
// real one does is in browser_test.go.
type fakeProvider struct {
	*httptest.Server
	metadata map[string]any
	token    func(w http.ResponseWriter, r *http.Request)
	asked    atomic.Int32
}

func newFakeProvider(t *testing.T) *fakeProvider {
	t.Helper()
	p := &fakeProvider{}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.asked.Add(1)
		if p.metadata == nil {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		json.NewEncoder(w).Encode(p.metadata)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) { p.token(w, r) })
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	p.metadata = map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/auth?tenant=a", "token_endpoint": p.URL + "/token",
		"authorization_response_iss_parameter_supported": true, "code_challenge_methods_supported": []string{"S256"},
	}
	p.token = func(w http.ResponseWriter, _ *http.Request) {
		answerToken(w, 200, `{"access_token": "the-token", "token_type": "bearer"}`)
	}
	return p
}

func answerToken(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

const theCode = "the-code-of-this-test"

func (p *fakeProvider) options() Options {
	opt := withLogin("https://tools.example")
	opt.ResourceURL = "https://tools.example/"
	opt.Login = &Login{
		Provider: "main", Issuer: p.URL, ClientID: "page:1", Scopes: []string{"openid", "mcp-registry:read"}, Client: p.Client(),
		ClientSecret: func() (string, error) { return "the-secret+of/this", nil },
	}
	opt.Validate = func(_ context.Context, token string) (*auth.Identity, error) {
		if token != "the-token" {
			return nil, &auth.Rejection{Attempts: []auth.Attempt{{Provider: "main", Reason: "it is another token"}}}
		}
		return &auth.Identity{Provider: "main", Issuer: p.URL, Subject: "jo", Expires: time.Now().Add(time.Hour)}, nil
	}
	return opt
}

// begin starts a sign-in and returns where the browser is sent, and its cookie.
func (h *harness) begin(target string) (*url.URL, *http.Cookie) {
	h.Helper()
	resp := h.get(target)
	if resp.StatusCode != http.StatusSeeOther || len(resp.Cookies()) != 1 {
		h.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	to, err := resp.Location()
	if err != nil {
		h.Fatal(err)
	}
	return to, resp.Cookies()[0]
}

func named(cookies []*http.Cookie, name string) *http.Cookie {
	for _, c := range cookies {
		if c.Name == name && c.MaxAge >= 0 {
			return c
		}
	}
	return nil
}

func TestLogin(t *testing.T) {
	p := newFakeProvider(t)
	var challenge string
	p.token = func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		r.ParseForm()
		sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
		got := map[string]string{"id": id, "secret": secret, "challenge": base64.RawURLEncoding.EncodeToString(sum[:])}
		for _, name := range []string{"grant_type", "code", "redirect_uri", "resource", "client_id", "client_secret"} {
			got[name] = r.Form.Get(name)
		}
		want := map[string]string{
			"id": "page%3A1", "secret": "the-secret%2Bof%2Fthis", "challenge": challenge, "grant_type": "authorization_code", "code": theCode,
			"redirect_uri": "https://tools.example/login/callback", "resource": "https://tools.example/", "client_id": "", "client_secret": "",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		answerToken(w, 200, `{"access_token": "the-token", "token_type": "Bearer"}`)
	}
	s := &shelf{name: "default"}
	s.put("io.example/weather", weather)
	h := newHarness(t, p.options(), s)
	to, cookie := h.begin("/login?next=%2Fserver%2Fdefault%2Fio.example%2Fweather%3Fversion%3D1.0.0")
	query := to.Query()
	challenge = query.Get("code_challenge")
	want := url.Values{
		"tenant": {"a"}, "response_type": {"code"}, "client_id": {"page:1"}, "redirect_uri": {"https://tools.example/login/callback"},
		"state": query["state"], "code_challenge": query["code_challenge"], "code_challenge_method": {"S256"},
		"resource": {"https://tools.example/"}, "scope": {"openid mcp-registry:read"},
	}
	if diff := cmp.Diff(want, query); diff != "" || len(query.Get("state")) < 22 || len(challenge) != 43 {
		t.Error(diff)
	}
	if cookie.Name != "__Host-thv-login" || !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteLaxMode || cookie.MaxAge != 600 {
		t.Errorf("%+v", cookie)
	}
	resp := h.get("/login/callback?"+url.Values{"code": {theCode}, "state": query["state"], "iss": {p.URL}}.Encode(), cookie)
	if resp.StatusCode != 303 || resp.Header.Get("Location") != "/server/default/io.example/weather?version=1.0.0" {
		t.Fatalf("%d %v %s", resp.StatusCode, resp.Header, h.log)
	}
	kept := named(resp.Cookies(), "__Host-thv-session")
	if kept == nil || kept.MaxAge > 3600 || kept.MaxAge < 3500 || named(resp.Cookies(), "__Host-thv-login") != nil {
		t.Fatalf("%v", resp.Cookies())
	}
	shows(t, h.get("/", kept), 200, "Weather", "jo")

	// Signing out is a POST of our own page.
	for name, c := range map[string]struct {
		headers []string
		status  int
	}{
		"our page":                {[]string{"Sec-Fetch-Site", "same-origin", "Origin", "https://tools.example"}, 303},
		"our page, behind a host": {[]string{"Origin", "https://tools.example"}, 303},
		"another site":            {[]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, 403},
		"a neighbour":             {[]string{"Sec-Fetch-Site", "same-site", "Origin", "https://evil.tools.example"}, 403},
		"an old browser":          {[]string{"Origin", "https://evil.example"}, 403},
	} {
		resp := h.send(http.MethodPost, "/logout", []*http.Cookie{kept}, c.headers...)
		cleared := len(resp.Cookies()) == 1 && resp.Cookies()[0].MaxAge < 0 && resp.Cookies()[0].Name == "__Host-thv-session"
		if resp.StatusCode != c.status || cleared != (c.status == 303) {
			t.Errorf("%s: %d %v", name, resp.StatusCode, resp.Header)
		}
	}
	h.hidesSecrets(to, cookie)
}

// hidesSecrets fails when the log holds what only the browser and the provider
// should know.
func (h *harness) hidesSecrets(to *url.URL, cookie *http.Cookie) {
	h.Helper()
	var a attempt
	if err := h.site.signIn.cookies.seal.open(h.Context(), attemptCookie, cookie.Value, &a); err != nil {
		h.Fatal(err)
	}
	for _, secret := range []string{theCode, "the-token", "the-secret", a.Verifier, to.Query().Get("state"), cookie.Value} {
		if strings.Contains(h.log.String(), secret) {
			h.Errorf("the log has %q:\n%s", secret, h.log)
		}
	}
}

func TestLogin_Failures(t *testing.T) {
	type answer struct {
		query  url.Values // put over a good one
		token  string     // answer of the token endpoint
		status int        // of it
		change func(*harness, *fakeProvider, *Options)
		late   time.Duration
		cookie func(*http.Cookie) []*http.Cookie
		want   string
	}
	q := func(pairs ...string) url.Values {
		v := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			v.Add(pairs[i], pairs[i+1])
		}
		return v
	}
	for name, c := range map[string]answer{
		"no cookie":                         {cookie: func(*http.Cookie) []*http.Cookie { return nil }, want: "This browser has not begun to sign in"},
		"a cookie of another key":           {cookie: altered, want: "This browser has not begun"},
		"a cookie that is too old":          {late: 10 * time.Minute, want: "more than ten minutes ago"},
		"another state":                     {query: q("state", "other"), want: "another attempt to sign in"},
		"no state":                          {query: q("state", ""), want: "another attempt to sign in"},
		"two states":                        {query: q("state", "a", "state", "b"), want: "a parameter twice"},
		"two codes":                         {query: q("code", "a", "code", "b"), want: "a parameter twice"},
		"another issuer (RFC 9207)":         {query: q("iss", "https://evil.example"), want: "does not come from the identity provider that was asked"},
		"an empty issuer":                   {query: q("iss", ""), want: "does not come from the identity provider that was asked"},
		"no code":                           {query: q("code", ""), want: "has no code"},
		"a refusal":                         {query: q("error", "access_denied", "error_description", "Jo\u202e said\x1b[31m no <b>"), want: "The identity provider says: access_denied: Jo said no <b>"},
		"a refusal that goes on and on":     {query: q("error", "e", "error_description", strings.Repeat("x", 1000)), want: "e: " + strings.Repeat("x", 300) + "…"},
		"a refusal that repeats the code":   {query: q("error", "e", "error_description", "no "+theCode), want: "e: no (hidden)"},
		"a refusal by the token endpoint":   {status: 400, token: `{"error": "invalid_grant", "error_description": "the code ` + theCode + ` is spent, the-secret+of/this"}`, want: "(400): invalid_grant the code (hidden) is spent, (hidden)"},
		"a refusal with 200":                {status: 200, token: `{"error": "invalid_grant"}`, want: "invalid_grant"},
		"a page instead of a token":         {status: 200, token: "<html>", want: "could not finish it"},
		"a token of another type":           {status: 200, token: `{"access_token": "the-token", "token_type": "DPoP"}`, want: "could not finish it"},
		"no token":                          {status: 200, token: `{"token_type": "Bearer"}`, want: "could not finish it"},
		"a token that is a list":            {status: 200, token: `{"access_token": ["the-token"], "token_type": "Bearer"}`, want: "could not finish it"},
		"a token without end":               {status: 200, token: `{"token_type": "Bearer", "access_token": "` + strings.Repeat("a", 17<<10) + `"}`, want: "could not finish it"},
		"an answer without end":             {status: 200, token: `{"access_token": "` + strings.Repeat("a", 2<<20) + `"}`, want: "could not finish it"},
		"a failing token endpoint":          {status: 500, token: "oops", want: "could not finish it"},
		"a token that the validator denies": {status: 200, token: `{"access_token": "bad", "token_type": "Bearer"}`, want: "does not accept the access token"},
		"a redirecting token endpoint": {change: func(_ *harness, p *fakeProvider, _ *Options) {
			p.token = func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/.well-known/openid-configuration", http.StatusTemporaryRedirect)
			}
		}, want: "could not finish it"},
		"a token of another provider": {change: func(_ *harness, _ *fakeProvider, o *Options) {
			o.Validate = func(context.Context, string) (*auth.Identity, error) {
				return &auth.Identity{Provider: "other", Issuer: "https://other.example", Expires: time.Now().Add(time.Hour)}, nil
			}
		}, want: "another provider's"},
		"a token that has expired": {change: func(_ *harness, p *fakeProvider, o *Options) {
			o.Validate = func(context.Context, string) (*auth.Identity, error) {
				return &auth.Identity{Provider: "main", Issuer: p.URL, Expires: time.Now().Add(-time.Hour)}, nil
			}
		}, want: "has expired already"},
		"claims that fit into no cookie": {change: func(_ *harness, p *fakeProvider, o *Options) {
			o.KeepClaims = []string{"groups"}
			o.Validate = func(context.Context, string) (*auth.Identity, error) {
				return &auth.Identity{Provider: "main", Issuer: p.URL, Expires: time.Now().Add(time.Hour), Claims: map[string]any{"groups": strings.Repeat("g", 4000)}}, nil
			}
		}, want: "too much for a cookie"},
		"a secret that cannot be read": {change: func(_ *harness, _ *fakeProvider, o *Options) {
			o.Login.ClientSecret = func() (string, error) { return "", fmt.Errorf("no such file") }
		}, want: "could not finish it"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFakeProvider(t)
			if c.status != 0 {
				p.token = func(w http.ResponseWriter, _ *http.Request) { answerToken(w, c.status, c.token) }
			}
			opt := p.options()
			if c.change != nil {
				c.change(nil, p, &opt)
			}
			s := &shelf{name: "default"}
			s.put("io.example/weather", weather)
			h := newHarness(t, opt, s)
			to, cookie := h.begin("/login?next=%2Fcatalog%2Fdefault")
			sent := *cookie
			answer := url.Values{"code": {theCode}, "state": to.Query()["state"], "iss": {p.URL}}
			for k, v := range c.query {
				answer[k] = v
			}
			cookies := []*http.Cookie{&sent}
			if c.cookie != nil {
				cookies = c.cookie(&sent)
			}
			h.advance(c.late)
			resp := h.get("/login/callback?"+answer.Encode(), cookies...)
			// The address that stays in the browser has no code.
			if resp.StatusCode != 303 || resp.Header.Get("Location") != "https://tools.example/login/callback" {
				t.Fatalf("%d %v", resp.StatusCode, resp.Header)
			}
			if named(resp.Cookies(), "__Host-thv-session") != nil {
				t.Error("a session was made")
			}
			page := h.get("/login/callback", named(resp.Cookies(), "__Host-thv-login-failure"))
			shows(t, page, 400, "Signing in did not work", c.want, "Try again")
			if strings.Contains(body(t, page), theCode) || named(page.Cookies(), "__Host-thv-login-failure") != nil {
				t.Error(body(t, page))
			}
			h.hidesSecrets(to, cookie)
		})
	}
}

// altered is a cookie of which one letter is another one.
func altered(c *http.Cookie) []*http.Cookie {
	letter := "A"
	if c.Value[0] == 'A' {
		letter = "B"
	}
	c.Value = letter + c.Value[1:]
	return []*http.Cookie{c}
}

func TestLogin_FailureWithoutCookies(t *testing.T) {
	h := newHarness(t, withLogin("https://tools.example"), &shelf{name: "default"})
	shows(t, h.get("/login/callback"), 400, "keeps no cookies", "Try again")
}

func TestLogin_ResponseWithoutIssuer(t *testing.T) {
	for promised, want := range map[bool]string{true: "https://tools.example/login/callback", false: "/"} {
		p := newFakeProvider(t)
		p.metadata["authorization_response_iss_parameter_supported"] = promised
		h := newHarness(t, p.options(), &shelf{name: "default"})
		to, cookie := h.begin("/login")
		resp := h.get("/login/callback?"+url.Values{"code": {theCode}, "state": to.Query()["state"]}.Encode(), cookie)
		if got := resp.Header.Get("Location"); got != want {
			t.Errorf("promised %t: it goes to %s", promised, got)
		}
	}
}

func TestLogin_ClientAuthentication(t *testing.T) {
	for name, c := range map[string]struct {
		methods []string
		secret  bool
		want    string
	}{
		"what it does not say is basic":  {nil, true, "basic"},
		"basic":                          {[]string{"private_key_jwt", "client_secret_basic", "client_secret_post"}, true, "basic"},
		"in the body":                    {[]string{"client_secret_post"}, true, "post"},
		"a public client has no secret":  {[]string{"client_secret_basic", "none"}, false, "none"},
		"a public client, nothing known": {nil, false, "none"},
	} {
		p := newFakeProvider(t)
		if c.methods != nil {
			p.metadata["token_endpoint_auth_methods_supported"] = c.methods
		}
		got := ""
		p.token = func(w http.ResponseWriter, r *http.Request) {
			_, _, basic := r.BasicAuth()
			switch {
			case basic:
				got = "basic"
			case r.PostFormValue("client_id") == "page:1" && r.PostFormValue("client_secret") == "the-secret+of/this":
				got = "post"
			case r.PostFormValue("client_id") == "page:1" && !r.PostForm.Has("client_secret"):
				got = "none"
			}
			answerToken(w, 200, `{"access_token": "the-token", "token_type": "Bearer"}`)
		}
		opt := p.options()
		if !c.secret {
			opt.Login.ClientSecret = nil
		}
		h := newHarness(t, opt, &shelf{name: "default"})
		to, cookie := h.begin("/login")
		h.get("/login/callback?"+url.Values{"code": {theCode}, "state": to.Query()["state"], "iss": {p.URL}}.Encode(), cookie)
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestLogin_UnusableProvider(t *testing.T) {
	for name, change := range map[string]func(p *fakeProvider){
		"it is down":                     func(p *fakeProvider) { p.metadata = nil },
		"metadata of another issuer":     func(p *fakeProvider) { p.metadata["issuer"] = p.URL + "/" },
		"no issuer":                      func(p *fakeProvider) { delete(p.metadata, "issuer") },
		"no endpoint":                    func(p *fakeProvider) { delete(p.metadata, "token_endpoint") },
		"an endpoint without HTTPS":      func(p *fakeProvider) { p.metadata["token_endpoint"] = "http://id.example/token" },
		"an endpoint that is a script":   func(p *fakeProvider) { p.metadata["authorization_endpoint"] = "javascript:alert(1)" },
		"an endpoint with a fragment":    func(p *fakeProvider) { p.metadata["authorization_endpoint"] = "https://id.example/a?b#c" },
		"an endpoint with a name":        func(p *fakeProvider) { p.metadata["authorization_endpoint"] = "https://jo@id.example/a" },
		"an endpoint of the wrong type":  func(p *fakeProvider) { p.metadata["token_endpoint"] = 7 },
		"no PKCE with S256":              func(p *fakeProvider) { p.metadata["code_challenge_methods_supported"] = []string{"plain"} },
		"metadata that are without end":  func(p *fakeProvider) { p.metadata["x"] = strings.Repeat("x", 2<<20) },
		"a list instead of the metadata": func(p *fakeProvider) { p.metadata["issuer"] = []string{p.URL} },
	} {
		t.Run(name, func(t *testing.T) {
			p := newFakeProvider(t)
			change(p)
			h := newHarness(t, p.options(), &shelf{name: "default"})
			for range 3 {
				page := h.get("/login")
				shows(t, page, 502, "Signing in is not possible now")
				if len(page.Cookies()) != 0 {
					t.Error(page.Cookies())
				}
			}
			if n := p.asked.Load(); n != 1 {
				t.Errorf("it was asked %d times", n)
			}
			if !strings.Contains(h.log.String(), p.URL) {
				t.Errorf("the log does not say where:\n%s", h.log)
			}
		})
	}
}

func TestLogin_ProviderRecovers(t *testing.T) {
	p := newFakeProvider(t)
	metadata := p.metadata
	p.metadata = nil
	h := newHarness(t, p.options(), &shelf{name: "default"})
	shows(t, h.get("/login"), 502)
	p.metadata = metadata
	shows(t, h.get("/login"), 502)
	h.advance(5 * time.Second)
	h.begin("/login")
	h.advance(9 * time.Minute)
	h.begin("/login")
	if n := p.asked.Load(); n != 2 {
		t.Errorf("it was asked %d times", n)
	}
}

func TestLogin_MetadataLocations(t *testing.T) {
	for _, place := range []string{"/tenant/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/tenant"} {
		mux := http.NewServeMux()
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		mux.HandleFunc("GET "+place, func(w http.ResponseWriter, _ *http.Request) {
			json.NewEncoder(w).Encode(map[string]any{"issuer": server.URL + "/tenant", "authorization_endpoint": server.URL + "/a", "token_endpoint": server.URL + "/t"})
		})
		opt := withLogin("https://tools.example")
		opt.Login.Issuer, opt.Login.Client = server.URL+"/tenant", server.Client()
		newHarness(t, opt, &shelf{name: "default"}).begin("/login")
	}
}

func TestOwnPage(t *testing.T) {
	for in, want := range map[string]string{
		"":                                     "/",
		"/":                                    "/",
		"/?q=a":                                "/?q=a",
		"/catalog/default?cursor=a&q=b":        "/catalog/default?cursor=a&q=b",
		"/server/default/io.example/a":         "/server/default/io.example/a",
		"//evil.example":                       "/",
		"///evil.example":                      "/",
		"/\\evil.example":                      "/",
		"\\\\evil.example":                     "/",
		"https://evil.example/server/a":        "/",
		"https:/server/a":                      "/",
		"javascript:alert(1)":                  "/",
		"//evil.example/server/a":              "/",
		"/server/../../evil":                   "/",
		"/server//evil.example":                "/",
		"/\t/evil.example":                     "/",
		"/server/a\r\nSet-Cookie: a=b":         "/",
		"server/a":                             "/",
		"/login":                               "/",
		"/logout":                              "/",
		"/login/callback?error=a":              "/",
		"/registry/default/v0.1/servers":       "/",
		"/.well-known/oauth":                   "/",
		"@evil.example":                        "/",
		"/server/%2f%2fevil.example":           "/",
		"/server/a#b":                          "/server/a",
		"?q=a":                                 "/",
		"/server/" + strings.Repeat("a", 1100): "/",
	} {
		if got := ownPage(in); got != want {
			t.Errorf("%q leads to %q, want %q", in, got, want)
		}
	}
}

func FuzzOwnPage(f *testing.F) {
	for _, s := range []string{"/", "/server/a", "//a", "/\\a", "https://a", "/server/a?b#c", "/catalog/%2e%2e"} {
		f.Add(s)
	}
	here, _ := url.Parse("https://tools.example/reg/login/callback")
	f.Fuzz(func(t *testing.T, raw string) {
		got := ownPage(raw)
		to, err := here.Parse("/reg" + got)
		if err != nil || to.Scheme != "https" || to.Host != "tools.example" || !strings.HasPrefix(to.Path, "/reg/") {
			t.Errorf("%q leads to %q (%v)", raw, got, err)
		}
	})
}
