package idp

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// Tokens are what a person's login gives a client.
type Tokens struct {
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token"`
	Scope        string `json:"scope"`
}

// UserTokens logs a person in to PublicClient for a resource, by authorization
// code with PKCE, and consents: what a browser would do, without one.
func (p *Provider) UserTokens(t testing.TB, user, resource string, scopes ...string) Tokens {
	t.Helper()
	const redirect = "http://127.0.0.1:4/callback"
	verifier := rand.Text() + rand.Text()
	challenge := sha256.Sum256([]byte(verifier))
	authorize := p.Issuer + "/auth?" + url.Values{
		"client_id": {PublicClient}, "redirect_uri": {redirect}, "response_type": {"code"}, "prompt": {"consent"},
		"scope": {strings.Join(append([]string{"openid"}, scopes...), " ")}, "resource": {resource}, "state": {"of a test"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}.Encode()
	code := p.approve(t, authorize, user, redirect)
	body := p.post(t, "/token", "", "", url.Values{
		"grant_type": {"authorization_code"}, "client_id": {PublicClient}, "code": {code},
		"redirect_uri": {redirect}, "code_verifier": {verifier}, "resource": {resource},
	})
	var tokens Tokens
	if err := json.Unmarshal(body, &tokens); err != nil || tokens.AccessToken == "" {
		t.Fatalf("the identity provider gave no token: %s", body)
	}
	return tokens
}

// approve fills in the provider's pages until it redirects, and returns the code.
func (p *Provider) approve(t testing.TB, authorize, user, redirect string) string {
	t.Helper()
	back, err := url.Parse(p.SignIn(t, authorize, user))
	if err != nil || !strings.HasPrefix(back.String(), redirect) {
		t.Fatalf("the login ended at another address than %s", redirect)
	}
	return back.Query().Get("code")
}

// SignIn fills in the pages of an authorization request, as a person does in a browser, and
// returns the address that the provider redirects to.
func (p *Provider) SignIn(t testing.TB, authorize, user string) string {
	t.Helper()
	request, err := url.Parse(authorize)
	if err != nil {
		t.Fatal(err)
	}
	redirect := request.Query().Get("redirect_uri")
	client := p.client()
	client.Jar, _ = cookiejar.New(nil)
	var back, code string
	client.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(req.URL.String(), redirect) {
			back = req.URL.String()
			if code = req.URL.Query().Get("code"); code == "" {
				t.Errorf("the identity provider refused: %s", req.URL)
			}
			return http.ErrUseLastResponse
		}
		return nil
	}
	action := regexp.MustCompile(`action="([^"]+)"`)
	prompt := regexp.MustCompile(`name="prompt" value="([^"]+)"`)
	resp, err := client.Get(authorize)
	for range 4 { // login, consent, and the redirects between them
		if err != nil {
			t.Fatal(err)
		}
		page, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if code != "" || t.Failed() {
			break
		}
		to, kind := action.FindSubmatch(page), prompt.FindSubmatch(page)
		if to == nil || kind == nil {
			t.Fatalf("%s: not a login page: %s %s", resp.Request.URL, resp.Status, page)
		}
		target, parseErr := resp.Request.URL.Parse(string(to[1]))
		if parseErr != nil {
			t.Fatal(parseErr)
		}
		resp, err = client.PostForm(target.String(), url.Values{"prompt": {string(kind[1])}, "login": {user}, "password": {"any"}})
	}
	if code == "" {
		t.Fatal("the login did not end with a code")
	}
	return back
}
