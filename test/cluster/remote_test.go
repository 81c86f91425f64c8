//go:build cluster && linux

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/credential/aws/awstest"
	"github.com/toolhaven/toolhaven/test/idp"
)

// trust is an authority that pods trust by the ConfigMap authority, and this program.
type trust struct {
	*idp.Authority
	client *http.Client
}

// newTrust makes an authority and the ConfigMap.
func newTrust(t *testing.T, namespace string) trust {
	t.Helper()
	a := idp.NewAuthority(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.PEM)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	t.Cleanup(transport.CloseIdleConnections)
	kubectl(t, "", "create", "configmap", "authority", "-n", namespace, "--from-literal=ca.pem="+string(a.PEM))
	return trust{a, &http.Client{Transport: transport, Timeout: patience}}
}

// serve serves HTTPS, and returns the URL.
func (tr trust) serve(t *testing.T, address string, handler http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(handler)
	s.Listener.Close()
	s.Listener = l
	certificate, key := tr.Certificate(t, nodeAddress, "127.0.0.1", stsHost)
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return "https://" + l.Addr().String()
}

// provider starts the identity provider on the node's address.
func (tr trust) provider(t *testing.T, options idp.Options) *idp.Provider {
	t.Helper()
	options.Host = nodeAddress
	options.CertPEM, options.KeyPEM = tr.Certificate(t, nodeAddress)
	options.CertPEM = append(options.CertPEM, tr.PEM...)
	return idp.Start(t, options)
}

// outside is an MCP server outside the cluster, which keeps the headers that it receives.
type outside struct {
	mu   sync.Mutex
	seen []http.Header
}

func (r *outside) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.seen = append(r.seen, req.Header.Clone())
	r.mu.Unlock()
	remoteServer.ServeHTTP(w, req)
}

// received are the headers so far.
func (r *outside) received() []http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// last is a header of the last request.
func (r *outside) last(name string) string {
	seen := r.received()
	if len(seen) == 0 {
		return ""
	}
	return seen[len(seen)-1].Get(name)
}

var remoteServer = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "remote", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: "returns the text"},
		func(_ context.Context, _ *sdk.CallToolRequest, in struct {
			Text string `json:"text"`
		}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Text}}}, nil, nil
		})
	return s
}, &sdk.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true})

// bearing sends a token and a header of its caller's with each request.
type bearing struct {
	token string
	next  http.RoundTripper
}

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	r.Header.Set("Cookie", "caller="+callerCookie)
	return b.next.RoundTrip(r)
}

const (
	callerCookie = "of-the-caller"
	toolsURL     = "https://tools.example" // the audience of callers' tokens
	stsRegion    = "eu-west-1"
	stsHost      = "sts." + stsRegion + ".amazonaws.com" // the node's address, by CoreDNS
	role         = "arn:aws:iam::123456789012:role/tools"
)

// Each type of MCPExternalAuthConfig that a remote server's gateway can use: the server
// receives its credential, and none of the caller's.
func TestRemoteProxy_Authentication(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	tr := newTrust(t, namespace)
	provider := tr.provider(t, idp.Options{Scopes: []string{"tools"}})
	sts := awstest.NewSTS()
	tr.serve(t, nodeAddress+":443", sts)
	kubectl(t, "", "create", "secret", "generic", "credential", "-n", namespace,
		"--from-literal=value=of-the-server", "--from-literal=client="+idp.ServiceSecret)
	apply(t, namespace, strings.ReplaceAll(oidcConfig, "$ISSUER", provider.Issuer))
	token := provider.Token(t, toolsURL, "tools")

	for name, test := range map[string]struct {
		config  string
		handler func(http.Handler) http.Handler
		check   func(t *testing.T, h http.Header)
	}{
		"none": {"type: unauthenticated", nil, func(t *testing.T, h http.Header) {
			if got := h.Get("Authorization"); got != "" {
				t.Errorf("Authorization is %q", got)
			}
		}},
		"header": {"type: headerInjection\n  headerInjection: {headerName: X-Api-Key, valueSecretRef: {name: credential, key: value}}", nil, func(t *testing.T, h http.Header) {
			if got := h.Get("X-Api-Key"); got != "of-the-server" {
				t.Errorf("X-Api-Key is %q", got)
			}
			if got := h.Get("Authorization"); got != "" {
				t.Errorf("Authorization is %q", got)
			}
		}},
		"bearer": {"type: bearerToken\n  bearerToken: {tokenSecretRef: {name: credential, key: value}}", nil, func(t *testing.T, h http.Header) {
			if got := h.Get("Authorization"); got != "Bearer of-the-server" {
				t.Errorf("Authorization is %q", got)
			}
		}},
		"exchange": {"type: tokenExchange\n  tokenExchange: {tokenUrl: " + provider.Issuer + "/token, audience: https://backend.example, clientId: " + idp.ServiceClient + ", clientSecretRef: {name: credential, key: client}}", nil, func(t *testing.T, h http.Header) {
			claims, err := payload(strings.TrimPrefix(h.Get("Authorization"), "Bearer "))
			if err != nil || claims["aud"] != "https://backend.example" || claims["exchanged"] != true {
				t.Errorf("the token's claims are %v (%v)", claims, err)
			}
		}},
		"aws": {"type: awsSts\n  awsSts: {region: " + stsRegion + ", fallbackRoleArn: '" + role + "'}", func(h http.Handler) http.Handler {
			return sts.Guard(awstest.Scope{Region: stsRegion, Service: "aws-mcp"}, h)
		}, func(t *testing.T, h http.Header) {
			if got := h.Get("X-Role"); got != role {
				t.Errorf("the role is %q", got)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &outside{}
			handler := http.Handler(r)
			if test.handler != nil {
				handler = test.handler(r)
			}
			apply(t, namespace, strings.NewReplacer("$NAME", name, "$CONFIG", test.config, "$URL", tr.serve(t, nodeAddress+":0", handler)+"/mcp").Replace(remoteObjects))
			url := remoteProxy(namespace, name).ready(t)
			if _, err := dial(t.Context(), url, stateless); err == nil {
				t.Error("a caller without a token is accepted")
			}
			before := len(r.received())
			s, err := dialWith(t.Context(), &http.Client{Transport: bearing{token, http.DefaultTransport}}, url, stateless)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if got := mustCall(t, s, "echo", map[string]any{"text": "far"}); got != "far" {
				t.Errorf("echo: %q", got)
			}
			received := r.received()[before:]
			if len(received) == 0 {
				t.Fatal("the server received nothing")
			}
			test.check(t, received[len(received)-1])
			for _, h := range received {
				if text := fmt.Sprint(h); strings.Contains(text, token) || strings.Contains(text, callerCookie) {
					t.Errorf("a credential of the caller came through: %s", text)
				}
			}
		})
	}
	t.Run("identities at STS", func(t *testing.T) {
		// AssumeRoleWithWebIdentity is made with the caller's token; that is its purpose.
		t.Parallel()
		eventually(t, "STS was requested", func(context.Context) error {
			for _, form := range sts.Requests() {
				if form.Get("RoleArn") == role && form.Get("WebIdentityToken") == token {
					return nil
				}
			}
			return fmt.Errorf("%d requests", len(sts.Requests()))
		})
	})
}

// payload are the claims of a JWT, without its verification.
func payload(token string) (claims map[string]any, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("%.20q is no JWT", token)
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &claims)
	return claims, err
}

// A changed Secret reaches the wire while requests go on, in the same process.
func TestRemoteProxy_SecretChanges(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	tr := newTrust(t, namespace)
	r := &outside{}
	kubectl(t, "", "create", "secret", "generic", "credential", "-n", namespace, "--from-literal=value=first")
	apply(t, namespace, strings.NewReplacer("$NAME", "changing", "$URL", tr.serve(t, nodeAddress+":0", r)+"/mcp", "  oidcConfigRef: {name: issuer, audience: '"+toolsURL+"'}\n", "",
		"$CONFIG", "type: headerInjection\n  headerInjection: {headerName: X-Api-Key, valueSecretRef: {name: credential, key: value}}").Replace(remoteObjects))
	w := remoteProxy(namespace, "changing")
	s := connect(t, w.ready(t), stateless)
	pods := podStates(w.pods(t))
	mustCall(t, s, "echo", map[string]any{"text": "x"})
	if got := r.last("X-Api-Key"); got != "first" {
		t.Fatalf("the header is %q", got)
	}
	kubectl(t, `{"stringData": {"value": "second"}}`, "patch", "secret", "credential", "-n", namespace, "--patch-file", "/dev/stdin")
	began := time.Now()
	eventually(t, "the new value is sent", func(context.Context) error {
		mustCall(t, s, "echo", map[string]any{"text": "x"})
		if got := r.last("X-Api-Key"); got != "second" {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
	t.Logf("the new value is sent %.1f s after the Secret changed", time.Since(began).Seconds())
	if got := podStates(w.pods(t)); !slices.Equal(got, pods) {
		t.Errorf("the pods were %v and are %v", pods, got)
	}
}

const oidcConfig = `
apiVersion: toolhaven.dev/v1beta1
kind: MCPOIDCConfig
metadata: {name: issuer}
spec:
  type: inline
  inline:
    issuer: $ISSUER
    jwksAllowPrivateIP: true
    caBundleRef: {configMapRef: {name: authority, key: ca.pem}}
`

const remoteObjects = `
apiVersion: toolhaven.dev/v1beta1
kind: MCPExternalAuthConfig
metadata: {name: $NAME}
spec:
  $CONFIG
---
apiVersion: toolhaven.dev/v1beta1
kind: MCPRemoteProxy
metadata: {name: $NAME}
spec:
  remoteUrl: $URL
  allowPrivateEndpoint: true
  replicas: 1
  oidcConfigRef: {name: issuer, audience: '` + toolsURL + `'}
  externalAuthConfigRef: {name: $NAME}
  caBundleRef: {configMapRef: {name: authority, key: ca.pem}}
`
