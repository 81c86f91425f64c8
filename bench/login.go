package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// The embedded authorization server of the gateways, and the client's redirect. A reverse
// proxy would serve the issuer; requests go to the gateways directly, with its Host.
const (
	loginHost     = "login.bench.example"
	loginResource = "https://" + loginHost + "/mcp"
	loginRedirect = "https://app.bench.example/callback"
)

var loginHandle = regexp.MustCompile(`name="login" value="([^"]+)"`)

// page is a response.
type page struct {
	status, location, cookie, text string
}

// query returns a parameter of where the response redirects to.
func (p page) query(name string) string {
	u, err := url.Parse(p.location)
	if err != nil {
		return ""
	}
	return u.Query().Get(name)
}

// visit sends a request of a client or a browser to a gateway.
func visit(ctx context.Context, method, address, contentType, body, cookie string) (page, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return page{}, err
	}
	req.Host = loginHost
	req.Header.Set("Content-Type", contentType)
	if cookie != "" {
		req.Header.Set("Cookie", cookie)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return page{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	p := page{status: resp.Status, location: resp.Header.Get("Location"), text: string(text)}
	if set := resp.Cookies(); len(set) > 0 {
		p.cookie = set[0].Name + "=" + set[0].Value
	}
	return p, err
}

// logIn registers a client at a gateway, signs a person in, consents, and returns the access
// token. The upstream provider's page is skipped: it answers any code.
func logIn(ctx context.Context, gateway string) (token string, err error) {
	const form = "application/x-www-form-urlencoded"
	registered, err := visit(ctx, http.MethodPost, gateway+"/oauth/register", "application/json", `{"client_name":"bench","redirect_uris":["`+loginRedirect+`"]}`, "")
	if err != nil {
		return "", err
	}
	var client struct {
		ID string `json:"client_id"`
	}
	if err := json.Unmarshal([]byte(registered.text), &client); err != nil || client.ID == "" {
		return "", fmt.Errorf("register: %s", registered.text)
	}
	verifier := rand.Text() + rand.Text()
	challenge := sha256.Sum256([]byte(verifier))
	begun, err := visit(ctx, http.MethodGet, gateway+"/oauth/authorize?"+url.Values{
		"client_id": {client.ID}, "redirect_uri": {loginRedirect}, "response_type": {"code"}, "state": {"s"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}.Encode(), form, "", "")
	if err != nil {
		return "", err
	}
	if begun.location == "" || begun.cookie == "" {
		return "", fmt.Errorf("authorize: %s: %s", begun.status, begun.text)
	}
	asked, err := visit(ctx, http.MethodGet, gateway+"/oauth/callback?"+url.Values{"code": {"c"}, "state": {begun.query("state")}}.Encode(), form, "", begun.cookie)
	if err != nil {
		return "", err
	}
	handle := loginHandle.FindStringSubmatch(asked.text)
	if handle == nil {
		return "", fmt.Errorf("callback: %s: %s", asked.status, asked.text)
	}
	back, err := visit(ctx, http.MethodPost, gateway+"/oauth/consent", form, url.Values{"login": {handle[1]}, "decision": {"allow"}}.Encode(), begun.cookie)
	if err != nil {
		return "", err
	}
	if back.query("code") == "" {
		return "", fmt.Errorf("consent: %s: %s", back.status, back.text)
	}
	issued, err := visit(ctx, http.MethodPost, gateway+"/oauth/token", form, url.Values{
		"grant_type": {"authorization_code"}, "client_id": {client.ID}, "code": {back.query("code")}, "redirect_uri": {loginRedirect}, "code_verifier": {verifier},
	}.Encode(), "")
	if err != nil {
		return "", err
	}
	var tokens struct {
		Access string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(issued.text), &tokens); err != nil || tokens.Access == "" {
		return "", errors.New("token: " + issued.text)
	}
	return tokens.Access, nil
}
