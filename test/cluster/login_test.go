//go:build cluster && linux

package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/toolhaven/toolhaven/test/idp"
)

const callback = "http://127.0.0.1:4/callback"

// front is HTTPS outside the cluster before a Service, as an Ingress has it.
type front struct {
	target atomic.Pointer[url.URL]
	next   http.Transport
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target := f.target.Load()
	if target == nil {
		http.Error(w, "the server is not there yet", http.StatusServiceUnavailable)
		return
	}
	(&httputil.ReverseProxy{Transport: &f.next, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host})
		r.Out.Host = r.In.Host
		r.SetXForwarded()
	}}).ServeHTTP(w, r)
}

// browser opens an address and does what a person does on the pages that follow, until it is
// sent to the client's redirect URI, whose address it returns.
func browser(ctx context.Context, next http.RoundTripper, address string) (string, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return "", err
	}
	to, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	callback, back := to.Query().Get("redirect_uri"), ""
	if callback == "" {
		return "", fmt.Errorf("%s has no redirect URI", address)
	}
	c := &http.Client{Transport: next, Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		r.Header.Del("Origin") // that of a form; a browser sends none with the GET that follows
		if strings.HasPrefix(r.URL.String(), callback) {
			back = r.URL.String()
			return http.ErrUseLastResponse
		}
		return nil
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	for range 8 {
		if err != nil {
			return "", err
		}
		response, err := c.Do(request)
		if err != nil {
			return "", err
		}
		page, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || back != "" {
			return back, err
		}
		action := formAction.FindSubmatch(page)
		if response.StatusCode != http.StatusOK || action == nil {
			return "", fmt.Errorf("%s: %s: %s", response.Request.URL, response.Status, page)
		}
		to, err := response.Request.URL.Parse(html.UnescapeString(string(action[1])))
		if err != nil {
			return "", err
		}
		form := url.Values{}
		for _, field := range hiddenField.FindAllSubmatch(page, -1) {
			form.Set(string(field[1]), html.UnescapeString(string(field[2])))
		}
		if form.Has("prompt") { // the identity provider's pages
			form.Set("login", "jo")
			form.Set("password", "any")
		} else {
			form.Set("decision", "allow")
		}
		request, err = http.NewRequestWithContext(ctx, http.MethodPost, to.String(), strings.NewReader(form.Encode()))
		if err == nil {
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			request.Header.Set("Origin", to.Scheme+"://"+to.Host)
		}
	}
	return "", errors.New("the login does not end")
}

var (
	formAction  = regexp.MustCompile(`action="([^"]+)"`)
	hiddenField = regexp.MustCompile(`name="(prompt|login)" value="([^"]+)"`)
)

// A person logs in at a provider of OAuth 2.0 without OpenID Connect, as GitHub is, before a
// stdio server. The signing key then changes, and sessions and tokens go on.
func TestLogin_BeforeStdio(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	tr := newTrust(t, namespace)
	f := &front{}
	issuer := tr.serve(t, "127.0.0.1:0", f) // the SDK follows no metadata to a private address
	provider := tr.provider(t, idp.Options{WebRedirects: []string{issuer + "/oauth/callback"}})
	keys := []string{newKey(t), newKey(t)}
	kubectl(t, "", "create", "secret", "generic", "login", "-n", namespace,
		"--from-literal=secret="+idp.WebSecret, "--from-literal=current="+keys[0], "--from-literal=previous="+keys[1], "--from-literal=hmac="+rand.Text()+rand.Text())
	apply(t, namespace, strings.NewReplacer("$ISSUER", issuer, "$HOST", strings.TrimPrefix(issuer, "https://"), "$IDP", provider.Issuer, "$CLIENT", idp.WebClient).Replace(loginObjects))
	w := server(namespace, "login")
	inside, err := url.Parse(w.ready(t))
	if err != nil {
		t.Fatal(err)
	}
	f.target.Store(inside)

	if _, err := dialWith(t.Context(), tr.client, issuer+"/mcp", sessionEra); err == nil {
		t.Error("a client without a login is accepted")
	}
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		Client:      tr.client,
		RedirectURL: callback,
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "A client of the tests", RedirectURIs: []string{callback}, GrantTypes: []string{"authorization_code", "refresh_token"},
		}},
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			back, err := browser(ctx, tr.client.Transport, args.URL)
			if err != nil {
				return nil, err
			}
			u, err := url.Parse(back)
			if err != nil {
				return nil, err
			}
			q := u.Query()
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	s, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: issuer + "/mcp", HTTPClient: tr.client, OAuthHandler: handler, DisableStandaloneSSE: true,
	}, &sdk.ClientSessionOptions{ProtocolVersion: sessionEra})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := mustCall(t, s, "echo", map[string]any{"text": "logged in"}); got != "logged in" {
		t.Errorf("echo: %q", got)
	}

	// The new key signs, and the one that signed stays as the previous one.
	before := published(t, tr.client, issuer)
	pods := podStates(w.pods(t))
	patch, err := json.Marshal(map[string]any{"stringData": map[string]string{"current": newKey(t), "previous": keys[0]}})
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, string(patch), "patch", "secret", "login", "-n", namespace, "--patch-file", "/dev/stdin")
	began := time.Now()
	eventually(t, "the new key is published", func(context.Context) error {
		mustCall(t, s, "echo", map[string]any{"text": "x"})
		if now := published(t, tr.client, issuer); slices.Equal(now, before) {
			return fmt.Errorf("the keys are %v", now)
		}
		return nil
	})
	t.Logf("the new key is published %.1f s after the Secret changed", time.Since(began).Seconds())
	mustCall(t, s, "echo", map[string]any{"text": "x"})
	if got := podStates(w.pods(t)); !slices.Equal(got, pods) {
		t.Errorf("the pods were %v and are %v", pods, got)
	}
}

// published are the ids of the keys that an authorization server publishes.
func published(t *testing.T, c *http.Client, issuer string) []string {
	t.Helper()
	var metadata struct {
		JWKS string `json:"jwks_uri"`
	}
	getJSON(t, c, issuer+"/.well-known/oauth-authorization-server", &metadata)
	var set struct {
		Keys []struct {
			ID string `json:"kid"`
		} `json:"keys"`
	}
	getJSON(t, c, metadata.JWKS, &set)
	var ids []string
	for _, key := range set.Keys {
		ids = append(ids, key.ID)
	}
	return ids
}

func getJSON(t *testing.T, c *http.Client, address string, into any) {
	t.Helper()
	response, err := c.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		t.Fatalf("%s: %s: %v", address, response.Status, err)
	}
}

// newKey is a private key for ES256, in PEM.
func newKey(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

const loginObjects = `
apiVersion: toolhaven.dev/v1beta1
kind: MCPExternalAuthConfig
metadata: {name: login}
spec:
  type: embeddedAuthServer
  embeddedAuthServer:
    issuer: $ISSUER
    signingKeySecretRefs: [{name: login, key: current}, {name: login, key: previous}]
    hmacSecretRefs: [{name: login, key: hmac}]
    upstreamProviders:
    - name: company
      type: oauth2
      oauth2Config:
        authorizationEndpoint: $IDP/auth
        tokenEndpoint: $IDP/token
        clientId: $CLIENT
        clientSecretRef: {name: login, key: secret}
        scopes: [openid, email]
        userInfo: {endpointUrl: $IDP/me}
---
apiVersion: toolhaven.dev/v1beta1
kind: MCPServer
metadata: {name: login}
spec:
  image: $REGISTRY/probe:1
  transport: stdio
  replicas: 1
  authServerRef: {name: login}
  allowedHosts: ['$HOST']
  trustProxyHeaders: true
  caBundleRef: {configMapRef: {name: authority, key: ca.pem}}
`
