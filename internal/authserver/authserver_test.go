package authserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/storage/memory"
	"github.com/toolhaven/toolhaven/internal/authserver/upstream"
	"github.com/toolhaven/toolhaven/internal/authserver/vault"
	"github.com/toolhaven/toolhaven/internal/externalauth"
)

// provider signs in whoever the test says.
type provider struct {
	name string

	mu       sync.Mutex
	person   upstream.Identity
	fails    error // of Authorize
	refuses  error // of Finish
	finished int
}

func (p *provider) Name() string { return p.name }

func (p *provider) Authorize(_ context.Context, state string) (string, upstream.Attempt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return "https://" + p.name + ".example/authorize?state=" + state, upstream.Attempt{}, p.fails
}

func (p *provider) Finish(context.Context, upstream.Attempt, url.Values) (*upstream.Login, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuses != nil {
		return nil, p.refuses
	}
	p.finished++
	return &upstream.Login{Identity: p.person, Tokens: upstream.Tokens{AccessToken: "of " + p.name + " for " + p.person.Subject}}, nil
}

// fixture is a server with a browser and a client at it.
type fixture struct {
	*Server
	t        *testing.T
	url      string
	browser  *http.Client
	main     *provider
	log      *bytes.Buffer
	client   string
	verifier string
	now      time.Time
}

const (
	testResource = "http://127.0.0.1:9/mcp"
	webRedirect  = "https://app.example/cb"
)

// newFixture starts a server. change may alter its configuration.
func newFixture(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, main: &provider{name: "main", person: upstream.Identity{Subject: "ann", Name: "Ann", Email: "ann@example.com"}}, log: &bytes.Buffer{}, now: time.Now()}
	var handler http.Handler
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	f.url = front.URL
	cfg := Config{
		Spec:     &externalauth.EmbeddedAuthServer{Issuer: front.URL, UpstreamProviders: []externalauth.UpstreamProvider{{Name: "main"}}},
		Resource: testResource, Store: memory.New(memory.Options{}), Upstreams: []Upstream{f.main},
		Log: slog.New(slog.NewTextHandler(f.log, nil)),
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if f.Server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	f.core.now = func() time.Time { return f.now }
	handler = f.Wrap(http.NotFoundHandler())
	f.browser = newBrowser(t)
	sum := sha256.Sum256([]byte("v"))
	f.verifier = base64.RawURLEncoding.EncodeToString(sum[:])
	f.client = f.register(webRedirect)
	return f
}

func newBrowser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// answer is a response with its body.
type answer struct {
	*http.Response
	body string
}

func (f *fixture) do(c *http.Client, r *http.Request) *answer {
	f.t.Helper()
	resp, err := c.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return &answer{resp, string(b)}
}

func (f *fixture) get(c *http.Client, address string) *answer {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.do(c, r)
}

func (f *fixture) post(c *http.Client, path string, form url.Values, headers ...string) *answer {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return f.do(c, r)
}

// json decodes a body.
func (a *answer) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("%d %q: %v", a.StatusCode, a.body, err)
	}
	return v
}

// registering sends a registration.
func (f *fixture) registering(body string, headers ...string) *answer {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.url+pathRegister, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return f.do(http.DefaultClient, r)
}

func (f *fixture) register(redirect string) string {
	f.t.Helper()
	a := f.registering(`{"client_name":"App","redirect_uris":["` + redirect + `"],"grant_types":["authorization_code","refresh_token"]}`)
	if a.StatusCode != http.StatusCreated {
		f.t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	return a.json(f.t)["client_id"].(string)
}

// request are the parameters of an authorization request, changed by pairs.
func (f *fixture) request(pairs ...string) string {
	sum := sha256.Sum256([]byte(f.verifier))
	q := url.Values{
		"client_id": {f.client}, "redirect_uri": {webRedirect}, "response_type": {"code"}, "state": {"s"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}, "resource": {testResource},
	}
	for i := 0; i < len(pairs); i += 2 {
		q.Del(pairs[i])
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return f.url + pathAuthorize + "?" + q.Encode()
}

var loginField = regexp.MustCompile(`name="login" value="([^"]+)"`)

// handle is the login of a page's form.
func (f *fixture) handle(a *answer) string {
	f.t.Helper()
	m := loginField.FindStringSubmatch(a.body)
	if a.StatusCode != http.StatusOK || m == nil {
		f.t.Fatalf("no form: %d %s", a.StatusCode, a.body)
	}
	return html.UnescapeString(m[1])
}

// location is where a response redirects.
func (f *fixture) location(a *answer) *url.URL {
	f.t.Helper()
	if a.StatusCode != http.StatusSeeOther {
		f.t.Fatalf("no redirect: %d %s", a.StatusCode, a.body)
	}
	u, err := a.Location()
	if err != nil {
		f.t.Fatal(err)
	}
	return u
}

// back returns from a provider.
func (f *fixture) back(a *answer) *answer {
	f.t.Helper()
	return f.get(f.browser, f.url+pathCallback+"?code=c&state="+f.location(a).Query().Get("state"))
}

// toConsent logs in until the consent page.
func (f *fixture) toConsent(pairs ...string) *answer {
	f.t.Helper()
	return f.back(f.get(f.browser, f.request(pairs...)))
}

// code logs in until the client has its code.
func (f *fixture) code(pairs ...string) string {
	f.t.Helper()
	a := f.toConsent(pairs...)
	if a.StatusCode == http.StatusOK {
		a = f.post(f.browser, pathConsent, url.Values{"login": {f.handle(a)}, "decision": {"allow"}})
	}
	q := f.location(a).Query()
	if q.Get("code") == "" || q.Get("state") != "s" || q.Get("iss") != f.url {
		f.t.Fatalf("no code: %v", q)
	}
	return q.Get("code")
}

// redeem sends a code, changed by pairs.
func (f *fixture) redeem(code string, pairs ...string) *answer {
	f.t.Helper()
	q := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": {f.client}, "redirect_uri": {webRedirect}, "code_verifier": {f.verifier}}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return f.post(http.DefaultClient, pathToken, q)
}

func (f *fixture) refreshing(token string, pairs ...string) *answer {
	f.t.Helper()
	q := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {f.client}}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return f.post(http.DefaultClient, pathToken, q)
}

// other is text with another first character.
func other(text string) string {
	if text[0] == 'A' {
		return "B" + text[1:]
	}
	return "A" + text[1:]
}

// refuses checks an error of RFC 6749 section 5.2.
func (f *fixture) refuses(a *answer, code string) {
	f.t.Helper()
	if got := a.json(f.t); a.StatusCode < 400 || got["error"] != code {
		f.t.Errorf("got %d %v, want %s", a.StatusCode, got, code)
	}
}

func TestLogin_GivesTokens(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	consent := f.toConsent("scope", "openid email")
	for _, want := range []string{"App", "ann@example.com", "app.example", "<li>openid</li>"} {
		if !strings.Contains(consent.body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if policy := consent.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	a := f.post(f.browser, pathConsent, url.Values{"login": {f.handle(consent)}, "decision": {"allow"}})
	q := f.location(a).Query()
	if q.Get("iss") != f.url || q.Get("state") != "s" {
		t.Errorf("%v", q)
	}
	tokens := f.redeem(q.Get("code"))
	got := tokens.json(t)
	if tokens.Header.Get("Cache-Control") != "no-store" || got["token_type"] != "Bearer" || got["scope"] != "openid email" || got["refresh_token"] == nil {
		t.Fatalf("%v", got)
	}
	id, claims := f.tokens.sessionOf(got["access_token"].(string))
	if id == "" || claims["aud"] != testResource || claims["client_id"] != f.client || claims["email"] != "ann@example.com" || claims["name"] != nil {
		t.Errorf("%v", claims)
	}
	if access, _, err := f.cfg.Vault.Token(t.Context(), vault.Binding{Session: id, Client: f.client, Provider: "main", Subject: claims["sub"].(string)}); err != nil || access != "of main for ann" {
		t.Errorf("the upstream token: %q, %v", access, err)
	}
	// Consent is remembered for a client that is not on this machine.
	if again := f.toConsent("scope", "openid email"); again.StatusCode != http.StatusSeeOther {
		t.Errorf("asked again: %d", again.StatusCode)
	}
	if more := f.toConsent("scope", "openid email profile"); more.StatusCode != http.StatusOK {
		t.Errorf("not asked about another scope: %d", more.StatusCode)
	}
	for _, secret := range []string{q.Get("code"), got["access_token"].(string), got["refresh_token"].(string), "of main"} {
		if strings.Contains(f.log.String(), secret) {
			t.Error("a token or code is in the log")
		}
	}
}

// A flood of logins fills nothing.
func TestLogin_Flood(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	var last *answer
	for range 70 {
		last = f.get(f.browser, f.request())
	}
	if last.StatusCode != http.StatusTooManyRequests {
		t.Errorf("%d", last.StatusCode)
	}
}

func TestConsent_IsAskedAgainForThisMachine(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.client = f.register("http://127.0.0.1/cb")
	for range 2 {
		a := f.toConsent("redirect_uri", "http://127.0.0.1:4711/cb") // RFC 8252 section 7.3
		if a.StatusCode != http.StatusOK || !strings.Contains(a.body, "runs on this computer") {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		f.post(f.browser, pathConsent, url.Values{"login": {f.handle(a)}, "decision": {"allow"}})
	}
}

// Each row is one fault of an authorization request. page: a person sees it; else the client
// on this machine receives the error.
func TestAuthorize_Refuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	web := f.client
	f.client = f.register("http://127.0.0.1/cb")
	for _, c := range []struct {
		rule  string
		pairs []string
		want  string // "" is a page
	}{
		{"RFC 6749 4.1.2.1 unknown client", []string{"client_id", "x"}, ""},
		{"a forged sealed id", []string{"client_id", other(f.client)}, ""},
		{"RFC 9700 4.1 redirect of another client", []string{"redirect_uri", webRedirect}, ""},
		{"RFC 9700 4.1 a longer path", []string{"redirect_uri", "http://127.0.0.1/cb/x"}, ""},
		{"RFC 9700 4.1 user information", []string{"redirect_uri", "http://127.0.0.1@evil.example/cb"}, ""},
		{"RFC 6749 3.1.1", []string{"response_type", "token"}, "unsupported_response_type"},
		{"RFC 7636 4.4.1 no challenge", []string{"code_challenge", ""}, "invalid_request"},
		{"RFC 9700 2.1.1 downgrade to plain", []string{"code_challenge_method", "plain"}, "invalid_request"},
		{"RFC 7636 4.2 a short challenge", []string{"code_challenge", "abc"}, "invalid_request"},
		{"RFC 8707 2 another resource", []string{"resource", "https://other.example"}, "invalid_target"},
		{"RFC 6749 3.3", []string{"scope", "unknown"}, "invalid_scope"},
		{"OIDC Core 3.1.2.6", []string{"prompt", "none"}, "login_required"},
		{"OIDC Core 6", []string{"request", "x"}, "request_not_supported"},
		{"fragment", []string{"response_mode", "fragment"}, "invalid_request"},
	} {
		a := f.get(f.browser, f.request(append([]string{"redirect_uri", "http://127.0.0.1:1234/cb"}, c.pairs...)...))
		if c.want == "" {
			if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "For the operator: ") {
				t.Errorf("%s: %d %s", c.rule, a.StatusCode, a.Header.Get("Location"))
			}
			continue
		}
		if q := f.location(a).Query(); q.Get("error") != c.want || q.Get("iss") != f.url || q.Get("state") != "s" {
			t.Errorf("%s: %v", c.rule, q)
		}
	}
	// RFC 6749 3.1: a repeated parameter.
	if a := f.get(f.browser, f.request("redirect_uri", "http://127.0.0.1:1/cb")+"&scope=a&scope=b"); a.StatusCode != http.StatusBadRequest {
		t.Errorf("a repeated parameter: %d", a.StatusCode)
	}
	// RFC 9700 4.11.2: no open redirector to a site that registered itself.
	f.client = web
	if a := f.get(f.browser, f.request("scope", "unknown")); a.StatusCode != http.StatusBadRequest || a.Header.Get("Location") != "" {
		t.Errorf("redirected: %d %q", a.StatusCode, a.Header.Get("Location"))
	}
}

// RFC 9700 section 4.7: another browser cannot continue a login, nor answer for its person.
func TestLogin_BelongsToABrowser(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	state := f.location(f.get(f.browser, f.request())).Query().Get("state")
	if a := f.get(newBrowser(t), f.url+pathCallback+"?code=c&state="+state); a.StatusCode != http.StatusForbidden || f.main.finished != 0 {
		t.Errorf("the callback in another browser: %d", a.StatusCode)
	}
	handle := f.handle(f.toConsent())
	if a := f.post(newBrowser(t), pathConsent, url.Values{"login": {handle}, "decision": {"allow"}}); a.StatusCode != http.StatusForbidden {
		t.Errorf("consent of another browser: %d", a.StatusCode)
	}
	handle = f.handle(f.toConsent())
	if a := f.post(f.browser, pathConsent, url.Values{"login": {handle}, "decision": {"allow"}}, "Sec-Fetch-Site: cross-site"); a.StatusCode != http.StatusForbidden {
		t.Errorf("consent by another site's form: %d", a.StatusCode)
	}
	// A handle is of one step, and is used once.
	if a := f.get(f.browser, f.url+pathCallback+"?code=c&state="+handle); a.StatusCode != http.StatusBadRequest {
		t.Errorf("a handle of consent at the callback: %d", a.StatusCode)
	}
	if a := f.post(f.browser, pathConsent, url.Values{"login": {handle}, "decision": {"allow"}}); a.StatusCode != http.StatusBadRequest {
		t.Errorf("a used handle: %d", a.StatusCode)
	}
	a := f.post(f.browser, pathConsent, url.Values{"login": {f.handle(f.toConsent())}, "decision": {"deny"}})
	if q := f.location(a).Query(); q.Get("error") != "access_denied" || q.Get("code") != "" {
		t.Errorf("%v", q)
	}
}

func TestLogin_UpstreamFails(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{"access_denied": upstream.ErrDenied, "temporarily_unavailable": upstream.ErrUnavailable, "server_error": errors.New("a lie")} {
		f := newFixture(t, nil)
		f.main.refuses = err
		if q := f.location(f.toConsent()).Query(); q.Get("error") != want || q.Get("iss") != f.url {
			t.Errorf("%v: %v", err, q)
		}
		f.main.fails = err
		if a := f.get(f.browser, f.request()); a.StatusCode != http.StatusBadRequest {
			t.Errorf("%v: %d", err, a.StatusCode)
		}
	}
}

// A code is of one client, redirect, verifier and resource, and is used once.
func TestToken_Code(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	other := f.register("https://other.example/cb")
	code := f.code()
	for _, c := range []struct {
		rule  string
		pairs []string
		want  string
	}{
		{"RFC 6749 5.2 another client", []string{"client_id", other}, "invalid_grant"},
		{"RFC 6749 4.1.3 another redirect", []string{"redirect_uri", "https://app.example/other"}, "invalid_grant"},
		{"RFC 7636 4.6 another verifier", []string{"code_verifier", strings.Repeat("a", 43)}, "invalid_grant"},
		{"RFC 7636 4.1 a short verifier", []string{"code_verifier", "a"}, "invalid_grant"},
		{"RFC 7636 4.5 no verifier", []string{"code_verifier", ""}, "invalid_request"},
		{"RFC 6749 4.1.3 no code", []string{"code", ""}, "invalid_request"},
		{"RFC 6749 5.2 no grant", []string{"grant_type", ""}, "invalid_request"},
		{"RFC 6749 6 no refresh token", []string{"grant_type", "refresh_token"}, "invalid_request"},
		{"RFC 8707 2 another resource", []string{"resource", "https://other.example"}, "invalid_target"},
		{"RFC 6749 5.2 unknown grant", []string{"grant_type", "password"}, "unsupported_grant_type"},
		{"RFC 6749 5.2 unknown code", []string{"code", "x"}, "invalid_grant"},
		{"RFC 6749 2.3.1 a secret of a public client", []string{"client_secret", "x"}, "invalid_client"},
		{"RFC 6749 5.2 unknown client", []string{"client_id", "x"}, "invalid_client"},
	} {
		f.refuses(f.redeem(code, c.pairs...), c.want)
	}
	// RFC 6749 section 4.1.3: the parameters are a form.
	f.refuses(f.post(http.DefaultClient, pathToken, url.Values{"code": {code}}, "Content-Type: application/json"), "invalid_request")
	tokens := f.redeem(code).json(t)
	if tokens["access_token"] == nil {
		t.Fatalf("%v", tokens)
	}
	// RFC 6749 4.1.2: the second use revokes what the first gave.
	f.refuses(f.redeem(code), "invalid_grant")
	f.refuses(f.refreshing(tokens["refresh_token"].(string)), "invalid_grant")
	id, claims := f.tokens.sessionOf(tokens["access_token"].(string))
	if _, _, err := f.cfg.Vault.Token(t.Context(), vault.Binding{Session: id, Client: f.client, Provider: "main", Subject: claims["sub"].(string)}); !errors.Is(err, vault.ErrLogin) {
		t.Errorf("the upstream token is still there: %v", err)
	}
}

// RFC 9700 section 4.14.2.
func TestToken_Refresh(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	first := f.redeem(f.code("scope", "openid email")).json(t)["refresh_token"].(string)
	f.refuses(f.refreshing(first, "client_id", f.register("https://other.example/cb")), "invalid_grant")
	f.refuses(f.refreshing(first, "scope", "openid profile"), "invalid_scope")
	f.refuses(f.refreshing(first[:60]+other(first[60:])), "invalid_grant")
	narrow := f.refreshing(first, "scope", "openid").json(t)
	second := narrow["refresh_token"].(string)
	if narrow["scope"] != "openid" || second == first {
		t.Fatalf("%v", narrow)
	}
	// A lost response: the same successor again, and both stay usable.
	if again := f.refreshing(first).json(t); again["refresh_token"] != second {
		t.Errorf("another successor: %v", again["error"])
	}
	third := f.refreshing(second).json(t)["refresh_token"].(string)
	f.now = f.now.Add(grace + time.Second)
	f.refuses(f.refreshing(second), "invalid_grant") // reuse
	f.refuses(f.refreshing(third), "invalid_grant")  // the whole family
}

func TestToken_ConcurrentUse(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	refresh := f.redeem(f.code()).json(t)["refresh_token"].(string)
	results := make([]map[string]any, 20)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() { results[i] = f.refreshing(refresh).json(t) })
	}
	wg.Wait()
	for _, r := range results {
		if r["refresh_token"] != results[0]["refresh_token"] || r["access_token"] == nil {
			t.Errorf("%v", r)
		}
	}
}

func TestRegister_Refuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for body, want := range map[string]string{
		`{}`: "invalid_redirect_uri",
		`{"redirect_uris":["javascript:alert(1)"]}`:                      "invalid_redirect_uri",
		`{"redirect_uris":["data:text/html,x"]}`:                         "invalid_redirect_uri",
		`{"redirect_uris":["http://app.example/cb"]}`:                    "invalid_redirect_uri",
		`{"redirect_uris":["https://a@b.example/cb"]}`:                   "invalid_redirect_uri",
		`{"redirect_uris":["https://a.example/cb#f"]}`:                   "invalid_redirect_uri",
		`{"redirect_uris":["/cb"]}`:                                      "invalid_redirect_uri",
		`{"redirect_uris":["https://a.example\\@b.example/"]}`:           "invalid_redirect_uri",
		`{"redirect_uris":["` + strings.Repeat("https://a", 300) + `"]}`: "invalid_redirect_uri",
		`{"redirect_uris":["https://a.example/` + strings.Repeat("a", 1900) + `","https://b.example/` + strings.Repeat("a", 1900) + `","https://c.example/` + strings.Repeat("a", 1900) + `"]}`: "invalid_client_metadata",
		`{"redirect_uris":["https://a.example/"],"token_endpoint_auth_method":"private_key_jwt"}`:                                                                                               "invalid_client_metadata",
		`{"redirect_uris":["https://a.example/"],"grant_types":["client_credentials"]}`:                                                                                                         "invalid_client_metadata",
		`{"redirect_uris":["https://a.example/"],"response_types":["token"]}`:                                                                                                                   "invalid_client_metadata",
		`{"redirect_uris":["https://a.example/"],"client_name":"` + strings.Repeat("a", 257) + `"}`:                                                                                             "invalid_client_metadata",
		`not json`: "invalid_client_metadata",
	} {
		f.refuses(f.registering(body), want)
	}
	f.refuses(f.registering(`{"redirect_uris":["https://a.example/"]}`, "Content-Type: text/plain"), "invalid_client_metadata")
	f.refuses(f.registering(`{"x":"`+strings.Repeat("a", maxRegistration)+`"}`), "invalid_client_metadata")
	var last *answer
	for range 70 {
		last = f.registering(`{"redirect_uris":["https://a.example/"]}`)
	}
	if last.StatusCode != http.StatusTooManyRequests || last.Header.Get("Retry-After") == "" {
		t.Errorf("a flood: %d", last.StatusCode)
	}
}

// A client with a secret must use it, by one method.
func TestToken_ConfidentialClient(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	reg := f.registering(`{"redirect_uris":["` + webRedirect + `"],"token_endpoint_auth_method":"client_secret_basic"}`).json(t)
	f.client = reg["client_id"].(string)
	secret := reg["client_secret"].(string)
	code := f.code("scope", "email")
	f.refuses(f.redeem(code), "invalid_client")
	f.refuses(f.redeem(code, "client_secret", other(secret)), "invalid_client")
	basic := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(f.client)+":"+url.QueryEscape(secret)))
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "code_verifier": {f.verifier}}
	a := f.post(http.DefaultClient, pathToken, form, basic)
	got := a.json(t)
	if got["access_token"] == nil || got["refresh_token"] != nil || got["id_token"] != nil {
		t.Errorf("%v", got)
	}
	form.Set("client_secret", secret)
	f.refuses(f.post(http.DefaultClient, pathToken, form, basic), "invalid_request")
	described := f.post(http.DefaultClient, pathIntrospect, url.Values{"token": {got["access_token"].(string)}}, basic).json(t)
	if described["active"] != true || described["sub"] == nil {
		t.Errorf("%v", described)
	}
}

func TestRevokeAndIntrospect(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	other := f.register("https://other.example/cb")
	tokens := f.redeem(f.code()).json(t)
	access, refresh := tokens["access_token"].(string), tokens["refresh_token"].(string)
	active := func(client, token string) any {
		return f.post(http.DefaultClient, pathIntrospect, url.Values{"token": {token}, "client_id": {client}}).json(t)["active"]
	}
	if active(f.client, access) != true || active(f.client, refresh) != true || active(other, access) != false || active(f.client, "x") != false {
		t.Error("introspection")
	}
	f.post(http.DefaultClient, pathRevoke, url.Values{"token": {refresh}, "client_id": {other}}) // RFC 7009 section 2.1
	if active(f.client, refresh) != true {
		t.Error("revoked by another client")
	}
	if a := f.post(http.DefaultClient, pathRevoke, url.Values{"token": {refresh}, "client_id": {f.client}}); a.StatusCode != http.StatusOK {
		t.Errorf("%d", a.StatusCode)
	}
	if active(f.client, access) != false || active(f.client, refresh) != false {
		t.Error("still active")
	}
	f.refuses(f.refreshing(refresh), "invalid_grant")
}

// Several providers in one login. The failure of a further one is no obstacle.
func TestLogin_SeveralProviders(t *testing.T) {
	t.Parallel()
	second := &provider{name: "second", person: upstream.Identity{Subject: "ann2"}}
	f := newFixture(t, func(c *Config) {
		c.Spec.PrimaryUpstreamProvider = "main"
		c.Upstreams = []Upstream{second, c.Upstreams[0]}
	})
	f.main = f.logins.upstreams[0].(*provider)
	choose := func(name string) *answer {
		return f.post(f.browser, pathConnect, url.Values{"login": {f.handle(f.toConsent())}, "provider": {name}})
	}
	session := func(consent *answer) (id, subject string) {
		a := f.post(f.browser, pathConsent, url.Values{"login": {f.handle(consent)}, "decision": {"allow"}})
		tokens := f.redeem(f.location(a).Query().Get("code")).json(t)
		id, claims := f.tokens.sessionOf(tokens["access_token"].(string))
		return id, claims["sub"].(string)
	}
	id, subject := session(f.back(choose("second")))
	binding := vault.Binding{Session: id, Client: f.client, Provider: "second", Subject: subject}
	if access, _, err := f.cfg.Vault.Token(t.Context(), binding); err != nil || access != "of second for ann2" {
		t.Errorf("%q, %v", access, err)
	}
	second.person.Subject = "bob2"
	if a := f.back(choose("second")); !strings.Contains(a.body, "another account") {
		t.Errorf("another person's account is linked: %d %s", a.StatusCode, a.body)
	}
	second.refuses = upstream.ErrUnavailable
	a := f.back(choose("second"))
	if !strings.Contains(a.body, "cannot be reached") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := f.post(f.browser, pathConnect, url.Values{"login": {f.handle(a)}}); a.StatusCode != http.StatusSeeOther {
		t.Errorf("without the second: %d %s", a.StatusCode, a.body)
	}
}

// brokenStore fails like one that cannot be reached.
type brokenStore struct {
	*memory.Store
	broken *bool
}

func (b brokenStore) Get(ctx context.Context, key string) ([]byte, error) {
	if *b.broken {
		return nil, errors.New("connection refused")
	}
	return b.Store.Get(ctx, key)
}

func (b brokenStore) Put(ctx context.Context, key string, value []byte, lifetime time.Duration) error {
	if *b.broken {
		return errors.New("connection refused")
	}
	return b.Store.Put(ctx, key, value, lifetime)
}

func (b brokenStore) Take(ctx context.Context, key string) ([]byte, error) {
	if *b.broken {
		return nil, errors.New("connection refused")
	}
	return b.Store.Take(ctx, key)
}

func TestStoreFails_LoginsGet503(t *testing.T) {
	t.Parallel()
	broken := false
	f := newFixture(t, func(c *Config) { c.Store = brokenStore{memory.New(memory.Options{}), &broken} })
	state := f.location(f.get(f.browser, f.request())).Query().Get("state")
	refresh := f.redeem(f.code()).json(t)["refresh_token"].(string)
	broken = true
	for name, a := range map[string]*answer{
		"authorize": f.get(f.browser, f.request()),
		"callback":  f.get(f.browser, f.url+pathCallback+"?code=c&state="+state),
		"refresh":   f.refreshing(refresh),
		"code":      f.redeem("x"),
	} {
		if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
	}
	broken = false
	if a := f.get(f.browser, f.url+pathCallback+"?code=c&state="+state); a.StatusCode != http.StatusSeeOther {
		t.Errorf("the login is lost: %d", a.StatusCode)
	}
	if f.refreshing(refresh).json(t)["access_token"] == nil {
		t.Error("the session is lost")
	}
}

func TestMetadata_AtEveryLocation(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) {
		c.Spec.Issuer += "/as"
		c.Spec.AuthorizationEndpointBaseURL = "http://127.0.0.1:8/x"
	})
	for _, location := range []string{wellKnownOAuth, wellKnownOAuth + "/as", wellKnownOpenID, wellKnownOpenID + "/as", "/as" + wellKnownOpenID} {
		a := f.get(http.DefaultClient, f.url+location)
		if got := a.json(t); got["issuer"] != f.url+"/as" || got["token_endpoint"] != f.url+"/as/oauth/token" || got["authorization_endpoint"] != "http://127.0.0.1:8/x/oauth/authorize" {
			t.Errorf("%s: %v", location, got)
		}
	}
	for _, location := range []string{pathKeys, "/as" + pathKeys} {
		if a := f.get(http.DefaultClient, f.url+location); len(a.json(t)["keys"].([]any)) != 1 || strings.Contains(a.body, `"d"`) {
			t.Errorf("%s: %s", location, a.body)
		}
	}
	if a := f.get(http.DefaultClient, f.url+"/mcp"); a.StatusCode != http.StatusNotFound {
		t.Errorf("another path: %d", a.StatusCode)
	}
	for path, methods := range map[string][]string{
		pathToken:     {"GET", "HEAD"},
		pathCallback:  {"HEAD", "POST", "OPTIONS"}, // HEAD: a preview of a link must not use it up
		pathAuthorize: {"HEAD", "OPTIONS"},
		pathConsent:   {"GET"},
	} {
		for _, method := range methods {
			r, err := http.NewRequestWithContext(t.Context(), method, f.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if a := f.do(http.DefaultClient, r); a.StatusCode != http.StatusMethodNotAllowed || a.Header.Get("Allow") == "" {
				t.Errorf("%s %s: %d", method, path, a.StatusCode)
			}
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, f.url+pathToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := f.do(http.DefaultClient, r); a.StatusCode != http.StatusNoContent || a.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("a preflight: %d", a.StatusCode)
	}
}

func TestNew_RefusesScopesThatNoProviderHas(t *testing.T) {
	t.Parallel()
	_, err := New(Config{
		Spec: &externalauth.EmbeddedAuthServer{Issuer: "http://127.0.0.1:1", BaselineClientScopes: []string{"openid", "repo", "gist"}},
		Log:  slog.New(slog.DiscardHandler), Upstreams: []Upstream{&provider{name: "main"}},
	})
	if err == nil || !strings.Contains(err.Error(), "no upstream provider has repo, gist") {
		t.Errorf("%v", err)
	}
}

// Anyone can name a document. A sender of many is refused, and keeps no other from a login.
func TestClientDocument_Flood(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) {
		c.Address = func(r *http.Request) string { return r.UserAgent() }
	})
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"client_id":"http://`+r.Host+r.URL.Path+`","redirect_uris":["`+webRedirect+`"]}`)
	}))
	t.Cleanup(host.Close)
	redeem := func(sender, client string) *answer {
		return f.post(http.DefaultClient, pathToken, url.Values{"grant_type": {"authorization_code"}, "code": {"x"}, "code_verifier": {f.verifier}, "client_id": {client}}, "User-Agent: "+sender)
	}
	var last *answer
	for i := range 3 * documentBurst {
		last = redeem("192.0.2.1", host.URL+"/flood"+strconv.Itoa(i))
	}
	f.refuses(last, "temporarily_unavailable")
	if last.StatusCode != http.StatusTooManyRequests || last.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v", last.StatusCode, last.Header)
	}
	// What is known is used, also for that sender.
	f.refuses(redeem("192.0.2.1", host.URL+"/flood0"), "invalid_grant")
	f.refuses(redeem("192.0.2.2", host.URL+"/other"), "invalid_grant")
	for sender, want := range map[string]int{"192.0.2.1": http.StatusTooManyRequests, "192.0.2.2": http.StatusSeeOther} {
		f.client = host.URL + "/login-from-" + sender
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.request(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("User-Agent", sender)
		if a := f.do(f.browser, r); a.StatusCode != want {
			t.Errorf("a login from %s: %d %s", sender, a.StatusCode, a.body)
		}
	}
	f.clients.documents.fetching = make(chan struct{}) // as many as may run at a time do
	if busy := redeem("192.0.2.3", host.URL+"/busy"); busy.StatusCode != http.StatusServiceUnavailable || busy.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", busy.StatusCode, busy.body)
	}
}

// The metadata document of a client is its registration.
func TestClientDocument(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	document := ""
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, document) }))
	t.Cleanup(host.Close)
	for name, c := range map[string]struct {
		document string
		good     bool
	}{
		"good":          {`{"client_id":"URL","client_name":"Doc","redirect_uris":["` + webRedirect + `"]}`, true},
		"another id":    {`{"client_id":"URL/x","redirect_uris":["` + webRedirect + `"]}`, false},
		"a secret":      {`{"client_id":"URL","client_secret":"x","redirect_uris":["` + webRedirect + `"]}`, false},
		"a secret used": {`{"client_id":"URL","token_endpoint_auth_method":"client_secret_basic","redirect_uris":["` + webRedirect + `"]}`, false},
		"no redirects":  {`{"client_id":"URL"}`, false},
		"too large":     {`{"client_id":"URL","x":"` + strings.Repeat("a", documentBytes) + `"}`, false},
	} {
		id := host.URL + "/" + url.PathEscape(name)
		document = strings.ReplaceAll(c.document, "URL", id)
		f.client = id
		a := f.get(f.browser, f.request())
		if good := a.StatusCode == http.StatusSeeOther; good != c.good {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	f.client = host.URL + "/good"
	if f.redeem(f.code()).json(t)["access_token"] == nil {
		t.Error("no token")
	}
	for _, id := range []string{"http://192.0.2.1/c", "https://127.0.0.1", "https://127.0.0.1/a/../b", "https://u@127.0.0.1/c", "https://127.0.0.1/c#f"} {
		if err := f.clients.documents.check(id); err == nil {
			t.Errorf("%s is accepted", id)
		}
	}
}

// A server without hmacSecretRefs knows its clients again after a restart, by its key.
func TestKey_KeepsClients(t *testing.T) {
	t.Parallel()
	key := []byte(strings.Repeat("k", 32))
	f := newFixture(t, func(c *Config) { c.Key = key })
	for _, c := range []struct {
		key   []byte
		known bool
	}{{key, true}, {nil, false}} {
		cfg := f.core.cfg
		cfg.Key = c.key
		again, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := again.clients.get(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), f.client); (err == nil) != c.known {
			t.Errorf("known %t: %v", c.known, err)
		}
	}
}

// Keys that change are used, while tokens under the old ones hold.
func TestKeys_Rotate(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{"a": strings.Repeat("a", 32), "b": strings.Repeat("b", 32)}
	f := newFixture(t, func(c *Config) {
		c.Spec.HMACSecretRefs = []externalauth.SecretRef{{Name: "s", Key: "a"}}
		c.Secret = func(r externalauth.SecretRef) (string, error) {
			if v := secrets[r.Key]; v != "" {
				return v, nil
			}
			return "", errors.New("no such secret")
		}
	})
	refresh := f.redeem(f.code()).json(t)["refresh_token"].(string)
	read := func() {
		f.ring.mu.Lock()
		f.ring.read = time.Now().Add(-2 * reload)
		f.ring.mu.Unlock()
	}
	f.ring.refs = []externalauth.SecretRef{{Name: "s", Key: "b"}, {Name: "s", Key: "a"}}
	read()
	rotated := f.refreshing(refresh).json(t)["refresh_token"]
	if rotated == nil {
		t.Fatal("a refresh token under the old key is refused")
	}
	if f.code() == "" { // the client's id is sealed with the old key
		t.Error("no code")
	}
	delete(secrets, "a")
	read()
	if f.refreshing(rotated.(string)).json(t)["access_token"] == nil {
		t.Error("a secret that cannot be read stopped the server")
	}
	f.ring.refs = []externalauth.SecretRef{{Name: "s", Key: "b"}}
	read()
	f.refuses(f.redeem("x"), "invalid_client") // the sealed id is of a key that is gone
}

func FuzzRedirect(f *testing.F) {
	for _, s := range []string{webRedirect, "http://127.0.0.1/cb", "cursor://x", "javascript:1", "https://a@b/", "http://[::1]:1/"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, registered, requested string) {
		if checkRedirect(registered) != nil || !sameRedirect(registered, requested) {
			return
		}
		a, errA := url.Parse(registered)
		b, errB := url.Parse(requested)
		if errA != nil || errB != nil || checkRedirect(requested) != nil || a.Hostname() != b.Hostname() || a.Path != b.Path || a.Scheme != b.Scheme {
			t.Errorf("%q leads to %q", registered, requested)
		}
	})
}

func FuzzRefreshToken(f *testing.F) {
	keys, err := parseRing([]string{strings.Repeat("k", 32)})
	if err != nil {
		f.Fatal(err)
	}
	s := &tokens{core: &core{ring: &reloaded[*ring]{value: keys, read: time.Now()}}}
	f.Add(sealRefresh(keys, "abc", 7))
	f.Add("..")
	f.Fuzz(func(t *testing.T, text string) {
		if id, generation, ok := s.openRefresh(text); ok && sealRefresh(keys, id, generation) != text {
			t.Errorf("forged: %q", text)
		}
	})
}
