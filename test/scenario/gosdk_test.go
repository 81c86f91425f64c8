//go:build integration

package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/rogpeppe/go-internal/testscript"
)

// goSDK is the command gosdk URL PERSON: the Go SDK's client connects to a gateway, registers at
// its authorization server, has the person log in, and calls the tool echo. The file gosdk.json
// has the tools and the result.
func goSDK(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	const redirect = "http://127.0.0.1:4/callback"
	login, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		RedirectURL:         redirect,
		RequestRefreshToken: true,
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Go SDK of the tests", RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: "none",
			GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		}},
		AuthorizationCodeFetcher: func(ctx context.Context, a *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			q, err := visit(ctx, a.URL, args[1], redirect)
			if err != nil {
				return nil, err
			}
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		},
	})
	ts.Check(err)
	client := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: args[0], OAuthHandler: login}, nil)
	ts.Check(err)
	defer session.Close()
	listed, err := session.ListTools(ctx, nil)
	ts.Check(err)
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "logged in"}})
	ts.Check(err)
	text, ok := result.Content[0].(*mcp.TextContent)
	if !ok {
		ts.Fatalf("the tool echo returned %T", result.Content[0])
	}
	out, err := json.Marshal(map[string]any{"tools": len(listed.Tools), "text": text.Text})
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("gosdk.json"), out, 0o600))
}

var (
	formAction = regexp.MustCompile(`action="([^"]+)"`)
	formPrompt = regexp.MustCompile(`name="prompt" value="([^"]+)"`)
	formLogin  = regexp.MustCompile(`name="login" value="([^"]+)"`)
)

// visit opens a page and fills in the forms of the identity provider and of the authorization
// server, as a person in a browser does, until it is redirected to the client. It returns the
// parameters of that redirect.
func visit(ctx context.Context, page, person, redirect string) (url.Values, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	browser := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), redirect) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	for range 10 {
		if err != nil {
			return nil, err
		}
		resp, err := browser.Do(req)
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		resp.Body.Close()
		if err != nil {
			return nil, err
		}
		if to, err := resp.Location(); err == nil {
			return to.Query(), nil
		}
		action := formAction.FindStringSubmatch(string(text))
		if action == nil {
			return nil, fmt.Errorf("a page without a form: %s: %.500s", resp.Status, text)
		}
		to, err := resp.Request.URL.Parse(action[1])
		if err != nil {
			return nil, err
		}
		form := url.Values{"login": {person}, "password": {"x"}}
		if prompt := formPrompt.FindStringSubmatch(string(text)); prompt != nil {
			form.Set("prompt", prompt[1])
		} else if login := formLogin.FindStringSubmatch(string(text)); login != nil {
			form = url.Values{"login": {login[1]}, "decision": {"allow"}}
		}
		req, err = http.NewRequestWithContext(ctx, http.MethodPost, to.String(), strings.NewReader(form.Encode()))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return nil, errors.New("the login does not come to an end")
}
