// Package keycloak starts Keycloak for tests, an identity provider of another make than those
// of the packages idp and dex, which test/setup/keycloak.sh fetches. It starts in half a
// minute, so only `make keycloak-test` uses it.
//
// It listens on the loopback address, keeps everything in memory, and ends with the test, also
// when the test's process is killed.
package keycloak

import (
	"bytes"
	"encoding/json"
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

// The client and the person of the realm.
const (
	Client, ClientSecret = "gateway", "gateway-secret-of-the-tests"
	Person               = "jo"
	password, admin      = "password-of-the-tests", "admin"
)

// startTimeout is for a busy machine.
const startTimeout = 10 * time.Minute

// Provider is a running Keycloak.
type Provider struct {
	// Issuer is its issuer URL, that of a realm.
	Issuer string
	base   string
}

// Start starts a provider with a client that returns to redirect, and ends it with the test.
func Start(t testing.TB, redirect string) *Provider {
	t.Helper()
	root, err := local.Root()
	if err != nil {
		t.Fatal(err)
	}
	server := filepath.Join(root, "test/.cache/keycloak/server")
	if _, err := os.Stat(filepath.Join(server, "bin/kc.sh")); err != nil {
		t.Fatalf("Keycloak cannot be started: %v; test/setup/keycloak.sh fetches it", err)
	}
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{base: "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	p.Issuer = p.base + "/realms/tests"
	command := exec.Command(filepath.Join(server, "bin/kc.sh"), "start", "--optimized", "--cache=local",
		"--http-enabled=true", "--http-host=127.0.0.1", "--http-port="+strconv.Itoa(port), "--hostname="+p.base)
	command.Env = append(os.Environ(), "KC_BOOTSTRAP_ADMIN_USERNAME="+admin, "KC_BOOTSTRAP_ADMIN_PASSWORD="+password)
	local.StartServer(t, command, p.base+"/realms/master/.well-known/openid-configuration", startTimeout)
	p.configure(t, redirect)
	return p
}

type object = map[string]any

// configure makes the realm.
func (p *Provider) configure(t testing.TB, redirect string) {
	t.Helper()
	p.admin(t, "/admin/realms", object{
		"realm": "tests", "enabled": true,
		"clients": []object{{
			"clientId": Client, "secret": ClientSecret, "enabled": true, "standardFlowEnabled": true, "redirectUris": []string{redirect},
			"attributes": object{"pkce.code.challenge.method": "S256"},
		}},
		"users": []object{{
			"username": Person, "enabled": true, "email": "jo@example.com", "emailVerified": true, "firstName": "Jo", "lastName": "Doe",
			"credentials": []object{{"type": "password", "value": password}},
		}},
	})
}

// InitialToken returns a token for one registration (RFC 7591 section 3).
func (p *Provider) InitialToken(t testing.TB) string {
	t.Helper()
	var answer struct{ Token string }
	if err := json.Unmarshal(p.admin(t, "/admin/realms/tests/clients-initial-access", object{"count": 1, "expiration": 3600}), &answer); err != nil || answer.Token == "" {
		t.Fatalf("Keycloak gave no initial token: %v", err)
	}
	return answer.Token
}

// admin sends a request of the administrator.
func (p *Provider) admin(t testing.TB, path string, body object) []byte {
	t.Helper()
	resp, err := http.PostForm(p.base+"/realms/master/protocol/openid-connect/token", url.Values{
		"grant_type": {"password"}, "client_id": {"admin-cli"}, "username": {admin}, "password": {password},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var token struct {
		Access string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&token); err != nil || token.Access == "" {
		t.Fatalf("the administrator got no token: %s, %v", resp.Status, err)
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.base+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token.Access)
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode/100 != 2 {
		t.Fatalf("%s: %s: %s, %v", path, answer.Status, got, err)
	}
	return got
}

var loginForm = regexp.MustCompile(`<form[^>]*id="kc-form-login"[^>]*action="([^"]+)"`)

// SignIn fills in the login page of an authorization request, as a person does in a browser,
// and returns the address that Keycloak redirects to.
func (p *Provider) SignIn(t testing.TB, authorize string) string {
	t.Helper()
	request, err := url.Parse(authorize)
	if err != nil {
		t.Fatal(err)
	}
	redirect := request.Query().Get("redirect_uri")
	browser := http.Client{Timeout: time.Minute, CheckRedirect: func(req *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(req.URL.String(), redirect) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	browser.Jar, _ = cookiejar.New(nil)
	resp, err := browser.Get(authorize)
	if err != nil {
		t.Fatal(err)
	}
	page, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	form := loginForm.FindSubmatch(page)
	if form == nil {
		t.Fatalf("%s: not a login page: %s %s", resp.Request.URL, resp.Status, page)
	}
	resp, err = browser.PostForm(html.UnescapeString(string(form[1])), url.Values{"username": {Person}, "password": {password}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		page, _ := io.ReadAll(resp.Body)
		t.Fatalf("the login ended at %s: %s %s", resp.Request.URL, resp.Status, page)
	}
	return back.String()
}
