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

// visit sends a request of a client or a browser to a gateway, and returns the response with
// its body.
func visit(ctx context.Context, method, address, contentType, body, cookie string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Host = loginHost
	req.Header.Set("Content-Type", contentType)
	if cookie != "" {
		req.Header.Set("Cookie", cookie)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

// logIn registers a client at a gateway, signs a person in, consents, and returns the access
// token. The upstream provider's page is skipped: it answers any code.
func logIn(ctx context.Context, gateway string) (token string, err error) {
	const form = "application/x-www-form-urlencoded"
	_, text, err := visit(ctx, http.MethodPost, gateway+"/oauth/register", "application/json", `{"client_name":"bench","redirect_uris":["`+loginRedirect+`"]}`, "")
	if err != nil {
		return "", err
	}
	var client struct {
		ID string `json:"client_id"`
	}
	if err := json.Unmarshal([]byte(text), &client); err != nil || client.ID == "" {
		return "", fmt.Errorf("register: %s", text)
	}
	verifier := rand.Text() + rand.Text()
	challenge := sha256.Sum256([]byte(verifier))
	resp, text, err := visit(ctx, http.MethodGet, gateway+"/oauth/authorize?"+url.Values{
		"client_id": {client.ID}, "redirect_uri": {loginRedirect}, "response_type": {"code"}, "state": {"s"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}.Encode(), form, "", "")
	if err != nil {
		return "", err
	}
	upstream, err := resp.Location()
	if err != nil || len(resp.Cookies()) == 0 {
		return "", fmt.Errorf("authorize: %s: %s", resp.Status, text)
	}
	cookie := resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value
	resp, text, err = visit(ctx, http.MethodGet, gateway+"/oauth/callback?"+url.Values{"code": {"c"}, "state": {upstream.Query().Get("state")}}.Encode(), form, "", cookie)
	if err != nil {
		return "", err
	}
	handle := loginHandle.FindStringSubmatch(text)
	if handle == nil {
		return "", fmt.Errorf("callback: %s: %s", resp.Status, text)
	}
	resp, text, err = visit(ctx, http.MethodPost, gateway+"/oauth/consent", form, url.Values{"login": {handle[1]}, "decision": {"allow"}}.Encode(), cookie)
	if err != nil {
		return "", err
	}
	back, err := resp.Location()
	if err != nil || back.Query().Get("code") == "" {
		return "", fmt.Errorf("consent: %s: %s", resp.Status, text)
	}
	_, text, err = visit(ctx, http.MethodPost, gateway+"/oauth/token", form, url.Values{
		"grant_type": {"authorization_code"}, "client_id": {client.ID}, "code": {back.Query().Get("code")}, "redirect_uri": {loginRedirect}, "code_verifier": {verifier},
	}.Encode(), "")
	if err != nil {
		return "", err
	}
	var tokens struct {
		Access string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(text), &tokens); err != nil || tokens.Access == "" {
		return "", errors.New("token: " + text)
	}
	return tokens.Access, nil
}
