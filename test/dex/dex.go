// Package dex starts Dex for tests, an identity provider of another make than the
// one of package idp, which test/setup/dex.sh builds. It differs where providers
// do: its access tokens are its ID tokens over again (no typ, no scope, aud is a
// client), its refresh tokens can be introspected as active, by anybody, and its
// keys rotate by themselves.
//
//	provider := dex.Start(t, dex.Options{Audience: "https://api.example"})
//	tokens := provider.Login(t)
//
// It listens on the loopback address, keeps everything in a temporary directory,
// and ends with the test, also when the test's process is killed.
package dex

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/test/local"
)

// Who logs in, and through which client. Dex's client of a resource is its
// audience (Options.Audience); Agent gets tokens for it as its trusted peer.
const (
	Agent, AgentSecret = "agent", "agent-secret-of-the-tests"
	user, password     = "jo@example.com", "password"
	// passwordHash is bcrypt of password.
	passwordHash = "$2a$10$2b2cU8CPhOTaGrs1HRQuAueS7JTT5ZHsHSzYiFPm1leZck7Mc8T4W"
)

// Options of a provider; the zero value is a useful one.
type Options struct {
	// Audience is the client id of the resource that tokens are for; "registry"
	// if "".
	Audience string
	// KeyLifetime is after how long keys rotate; Dex looks every 30 s, and when
	// it starts. 6 hours if 0.
	KeyLifetime time.Duration
	// TokenLifetime is how long access tokens last, and how long a key that no
	// longer signs stays published; 5 minutes if 0.
	TokenLifetime time.Duration
	// Redirects are Agent's redirect URIs.
	Redirects []string
	// Upstream is the issuer of an identity provider whose tokens Dex exchanges
	// (Provider.ExchangeURL). Its login page then offers that provider, too, and
	// SignIn does not work.
	Upstream string
}

// Provider is a running Dex.
type Provider struct {
	// Issuer is its issuer URL. It has a path.
	Issuer string

	options Options
	program string
	config  string
	stop    func()
	stderr  *local.Output
}

// Tokens are what a login gives.
type Tokens struct {
	AccessToken  string `json:"access_token"`
	IDToken      string `json:"id_token"`
	RefreshToken string `json:"refresh_token"`
}

// Start starts a provider, ends it with the test, and fails the test when that is
// not possible. It answers when Start returns.
func Start(t testing.TB, options Options) *Provider {
	t.Helper()
	program, err := installed()
	if err != nil {
		t.Fatalf("Dex cannot be started: %v; test/setup/dex.sh builds it", err)
	}
	if options.Audience == "" {
		options.Audience = "registry"
	}
	if options.KeyLifetime == 0 {
		options.KeyLifetime = 6 * time.Hour
	}
	if options.TokenLifetime == 0 {
		options.TokenLifetime = 5 * time.Minute
	}
	p := &Provider{options: options, program: program}
	p.configure(t)
	t.Cleanup(p.Stop)
	p.Restart(t)
	return p
}

// installed finds what test/setup/dex.sh builds, from the working directory.
func installed() (string, error) {
	root, err := local.Root()
	if err != nil {
		return "", err
	}
	program := filepath.Join(root, "test/.cache/dex/dex")
	_, err = os.Stat(program)
	return program, err
}

// configure writes the configuration, with a port that is free now.
func (p *Provider) configure(t testing.TB) {
	t.Helper()
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	dir := t.TempDir()
	p.Issuer, p.config = "http://"+address+"/dex", filepath.Join(dir, "dex.json")
	type object = map[string]any
	var connectors []object
	if p.options.Upstream != "" {
		connectors = []object{{"type": "oidc", "id": upstreamConnector, "name": "upstream", "config": object{
			"issuer": p.options.Upstream, "clientID": "dex", "clientSecret": "not used", "redirectURI": p.Issuer + "/callback",
			"scopes": []string{"openid"}, "userNameKey": "sub", "insecureSkipEmailVerified": true,
		}}}
	}
	text, err := json.Marshal(object{ // JSON is YAML
		"issuer": p.Issuer,
		// A file: keys and refresh tokens survive a restart.
		"storage":          object{"type": "sqlite3", "config": object{"file": filepath.Join(dir, "dex.db")}},
		"web":              object{"http": address},
		"oauth2":           object{"passwordConnector": "local", "skipApprovalScreen": true},
		"enablePasswordDB": true, "connectors": connectors,
		"staticPasswords": []object{{"email": user, "hash": passwordHash, "username": "jo", "userID": "08a8684b-db88-4b73-90a9-3cd1661f5466"}},
		"staticClients": []object{
			{"id": Agent, "name": "an agent", "secret": AgentSecret, "redirectURIs": p.options.Redirects},
			{"id": p.options.Audience, "name": "the resource", "secret": "of nobody", "trustedPeers": []string{Agent}},
		},
		"expiry": object{
			"signingKeys": p.options.KeyLifetime.String(), "idTokens": p.options.TokenLifetime.String(),
			"refreshTokens": object{"absoluteLifetime": "24h"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// startTimeout is for a busy machine.
const startTimeout = 2 * time.Minute

// Restart starts the provider after Stop, on the same port with the same data.
func (p *Provider) Restart(t testing.TB) {
	t.Helper()
	if p.stop != nil {
		t.Fatal("Dex is running already")
	}
	p.stop, p.stderr = local.StartServer(t, exec.Command(p.program, "serve", p.config), p.Issuer+"/.well-known/openid-configuration", startTimeout)
}

// Stop ends the provider: connections to it are refused until Restart.
func (p *Provider) Stop() {
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
}

// IntrospectionURL is the URL of the introspection endpoint. Dex requires no credentials
// there.
func (p *Provider) IntrospectionURL() string { return p.Issuer + "/token/introspect" }

// upstreamConnector is the id of the connector of Options.Upstream.
const upstreamConnector = "upstream"

// ExchangeURL is the URL at which Dex exchanges tokens of Options.Upstream (RFC 8693). Dex
// requires the parameter connector_id. It takes a JWT for an id_token only.
func (p *Provider) ExchangeURL() string { return p.Issuer + "/token?connector_id=" + upstreamConnector }

// Login gets tokens for Options.Audience by the password grant (RFC 6749 section
// 4.3), through Agent.
func (p *Provider) Login(t testing.TB, scopes ...string) Tokens {
	t.Helper()
	scopes = append([]string{"openid", "email", "audience:server:client_id:" + p.options.Audience}, scopes...)
	return p.login(t, scopes)
}

// LoginForAgent gets tokens that are for the client itself and no resource.
func (p *Provider) LoginForAgent(t testing.TB) Tokens {
	t.Helper()
	return p.login(t, []string{"openid", "email"})
}

func (p *Provider) login(t testing.TB, scopes []string) Tokens {
	t.Helper()
	form := url.Values{"grant_type": {"password"}, "username": {user}, "password": {password}, "scope": {strings.Join(scopes, " ")}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.Issuer+"/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(Agent, AgentSecret)
	body, err := do(req)
	if err != nil {
		t.Fatalf("log in at Dex: %v\n%s", err, p.stderr)
	}
	var tokens Tokens
	if err := json.Unmarshal(body, &tokens); err != nil || tokens.AccessToken == "" {
		t.Fatalf("Dex gave no token: %s", body)
	}
	return tokens
}

// SignIn fills in the login page of an authorization request, as a person does in a browser,
// and returns the address that Dex redirects to.
func (p *Provider) SignIn(t testing.TB, authorize string) string {
	t.Helper()
	request, err := url.Parse(authorize)
	if err != nil {
		t.Fatal(err)
	}
	redirect, back := request.Query().Get("redirect_uri"), ""
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	client.Jar, _ = cookiejar.New(nil)
	client.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(req.URL.String(), redirect) {
			back = req.URL.String()
			return http.ErrUseLastResponse
		}
		return nil
	}
	form := regexp.MustCompile(`<form method="post" action="([^"]+)"`)
	resp, err := client.Get(authorize)
	for range 2 { // the login page, and what follows it
		if err != nil {
			t.Fatal(err)
		}
		page, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if back != "" {
			return back
		}
		action := form.FindSubmatch(page)
		if action == nil {
			t.Fatalf("%s: not a login page: %s %s", resp.Request.URL, resp.Status, page)
		}
		to, parseErr := resp.Request.URL.Parse(html.UnescapeString(string(action[1])))
		if parseErr != nil {
			t.Fatal(parseErr)
		}
		resp, err = client.PostForm(to.String(), url.Values{"login": {user}, "password": {password}})
	}
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if back == "" {
		t.Fatalf("the login ended at %s", resp.Request.URL)
	}
	return back
}

// KeyIDs are those of the keys that it publishes.
func (p *Provider) KeyIDs(t testing.TB) []string {
	t.Helper()
	body, err := p.get("/keys")
	if err != nil {
		t.Fatal(err)
	}
	var set struct{ Keys []struct{ Kid string } }
	if err := json.Unmarshal(body, &set); err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(set.Keys))
	for i, k := range set.Keys {
		ids[i] = k.Kid
	}
	return ids
}

func (p *Provider) get(path string) ([]byte, error) {
	req, err := http.NewRequest(http.MethodGet, p.Issuer+path, nil)
	if err != nil {
		return nil, err
	}
	return do(req)
}

func do(req *http.Request) ([]byte, error) {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: answered %s: %s", req.URL, resp.Status, body)
	}
	return body, err
}
