//go:build linux

package pod

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"html"
	"io"
	"maps"
	"net"
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

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/credential/aws/awstest"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/operator/render"
	"github.com/toolhaven/toolhaven/internal/operator/translate"
	"github.com/toolhaven/toolhaven/internal/workload"
	"github.com/toolhaven/toolhaven/test/tokens"
)

// How the clients of a workload are authenticated.
const (
	byNobody = "no tokens"
	byIssuer = "an issuer"
	bySignIn = "an authorization server"
)

const wireAudience = "tools"

// Every type of MCPExternalAuthConfig at every kind that it works at: what the operator makes of
// the resources runs as a pod, and the server receives what the type says. The combinations that
// do not work are conditions (translate.TestEveryTypeAtEveryKind).
func TestEveryType_OnTheWire(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		typ      externalauth.Type
		kinds    string
		incoming []string
		want     string // of what the server receives, see received
	}{
		{externalauth.TypeUnauthenticated, "stdio http remote", []string{byNobody, byIssuer, bySignIn}, ""},
		{externalauth.TypeHeaderInjection, "http remote", []string{byNobody, byIssuer, bySignIn}, "X-Api-Key: injected"},
		{externalauth.TypeBearerToken, "http remote", []string{byNobody, byIssuer, bySignIn}, "Authorization: Bearer fixed"},
		{externalauth.TypeTokenExchange, "http remote", []string{byIssuer, bySignIn}, "Authorization: Bearer exchanged for SUBJECT"},
		{externalauth.TypeAWSSTS, "http remote", []string{byIssuer, bySignIn}, "role arn:aws:iam::123456789012:role/r for SUBJECT"},
		{externalauth.TypeUpstreamInject, "http remote", []string{bySignIn}, "Authorization: Bearer SUBJECT"},
		// As externalAuthConfigRef it is who signs in, and an HTTP server receives the token of
		// the provider.
		{externalauth.TypeEmbeddedAuthServer, "stdio", []string{byNobody}, ""},
		{externalauth.TypeEmbeddedAuthServer, "http remote", []string{byNobody}, "Authorization: Bearer SUBJECT"},
	} {
		for kind := range strings.FieldsSeq(row.kinds) {
			for _, incoming := range row.incoming {
				t.Run(fmt.Sprintf("%s/%s/%s", row.typ, kind, incoming), func(t *testing.T) {
					t.Parallel()
					newWire(t, row.typ, kind, incoming).check(row.want)
				})
			}
		}
	}
}

// wire is one workload with all that it speaks to.
type wire struct {
	*testing.T
	typ            externalauth.Type
	kind, incoming string

	issuer  tokens.Issuer
	partner *httptest.Server // the provider of logins and of exchanges
	server  *httptest.Server // the tool server; nil for stdio
	gateway string

	secrets *mounted
	durable bool   // the authorization server has keys of its own
	client  string // that is registered there

	mu       sync.Mutex
	received string // by the last call of a tool
	password string // of the client c
}

func newWire(t *testing.T, typ externalauth.Type, kind, incoming string) *wire {
	w := &wire{T: t, typ: typ, kind: kind, incoming: incoming}
	w.start(nil)
	return w
}

// start starts all of it. secrets are more of those in creds.
func (w *wire) start(secrets map[string]string) {
	t := w.T
	t.Helper()
	w.password = "s3cret"
	w.issuer = tokens.Start(t, wireAudience)
	w.partner = httptest.NewServer(http.HandlerFunc(w.servePartner))
	t.Cleanup(w.partner.Close)
	dir, listen := t.TempDir(), freeAddress(t, "127.0.0.1")
	w.gateway = "http://" + listen
	all := map[string]string{"header": "injected", "token": "fixed", "client": w.password}
	maps.Copy(all, secrets)
	w.secrets = mount(t, dir, "creds", all)
	cfg := Config{SecretsDir: dir, Listen: listen}
	if w.kind == "stdio" {
		cfg.GuestSocket = socketPath(t)
		startGuest(t, cfg.GuestSocket)
	} else {
		echo := echoing("X-None")
		w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.record(rw, r, echo) }))
		t.Cleanup(w.server.Close)
	}
	startPod(t, w.translated(), cfg).awaitReady(t, http.StatusOK)
}

// translated is what the operator makes of the resources: the run configuration of the gateway.
func (w *wire) translated() *workload.Spec {
	w.Helper()
	from := &translate.Resolved{ExternalAuth: w.resource()}
	p := v1beta1.ProxySpec{ExternalAuthConfigRef: &v1beta1.NameRef{Name: "auth"}, Replicas: ptr.To[int32](1), AllowedHosts: []string{strings.TrimPrefix(w.gateway, "http://")}}
	switch w.incoming {
	case byIssuer:
		p.OIDCConfigRef = &v1beta1.OIDCConfigRef{Name: "oidc", Audience: wireAudience}
		from.OIDC = &v1beta1.MCPOIDCConfig{ObjectMeta: metav1.ObjectMeta{Name: "oidc"}, Spec: v1beta1.MCPOIDCConfigSpec{
			Type: v1beta1.OIDCInlineType, Inline: &v1beta1.InlineOIDC{Issuer: w.issuer.URL, InsecureAllowHTTP: true, JWKSAllowPrivateIP: true},
		}}
	case bySignIn:
		p.AuthServerRef = &v1beta1.AuthServerRef{Name: "signin"}
		from.AuthServer = &v1beta1.MCPExternalAuthConfig{ObjectMeta: metav1.ObjectMeta{Name: "signin"}, Spec: w.signIn()}
	}
	meta := metav1.ObjectMeta{Name: "wire", Namespace: "tools"}
	var rendered *render.Workload
	var problems []translate.Problem
	if w.kind == "remote" {
		// The operator permits no remote server at loopback, so that its address is set below.
		rendered, problems = translate.RemoteProxy(&v1beta1.MCPRemoteProxy{ObjectMeta: meta, Spec: v1beta1.MCPRemoteProxySpec{
			RemoteServer: v1beta1.RemoteServer{RemoteURL: "https://mcp.example/"}, ProxySpec: p,
		}}, from, translate.Options{GatewayImage: "thv:1"})
	} else {
		o := &v1beta1.MCPServer{ObjectMeta: meta, Spec: v1beta1.MCPServerSpec{Image: "server:1", Transport: "stdio", Command: []string{"/server"}, ProxySpec: p}}
		if w.kind == "http" {
			_, port, err := net.SplitHostPort(strings.TrimPrefix(w.server.URL, "http://"))
			if err != nil {
				w.Fatal(err)
			}
			n, _ := strconv.ParseInt(port, 10, 32)
			o.Spec.Transport, o.Spec.MCPPort, o.Spec.Command = "streamable-http", ptr.To(int32(n)), nil
		}
		rendered, problems = translate.Server(o, from, translate.Options{GatewayImage: "thv:1"})
	}
	if rendered == nil {
		w.Fatalf("the operator does not run it: %v", problems)
	}
	if _, err := render.Objects(rendered); err != nil {
		w.Fatal(err)
	}
	if w.kind == "remote" {
		rendered.Spec.Remote.URL = w.server.URL
	}
	return rendered.Spec
}

// resource is the one of the type.
func (w *wire) resource() *v1beta1.MCPExternalAuthConfig {
	ref := func(key string) *externalauth.SecretRef { return &externalauth.SecretRef{Name: "creds", Key: key} }
	spec := externalauth.Spec{Type: w.typ}
	switch w.typ {
	case externalauth.TypeHeaderInjection:
		spec.HeaderInjection = &externalauth.HeaderInjection{HeaderName: "X-Api-Key", ValueSecretRef: ref("header")}
	case externalauth.TypeBearerToken:
		spec.BearerToken = &externalauth.BearerToken{TokenSecretRef: ref("token")}
	case externalauth.TypeTokenExchange:
		spec.TokenExchange = &externalauth.TokenExchange{TokenURL: w.partner.URL + "/exchange", Audience: "server", ClientID: "c", ClientSecretRef: ref("client")}
	case externalauth.TypeAWSSTS:
		spec.AWSSTS = &externalauth.AWSSTS{Region: "eu-central-1", FallbackRoleARN: "arn:aws:iam::123456789012:role/r"}
	case externalauth.TypeUpstreamInject:
		spec.UpstreamInject = &externalauth.UpstreamInject{ProviderName: "corp"}
	case externalauth.TypeEmbeddedAuthServer:
		spec = w.signIn()
	case externalauth.TypeUnauthenticated:
	}
	return &v1beta1.MCPExternalAuthConfig{ObjectMeta: metav1.ObjectMeta{Name: "auth"}, Spec: spec}
}

func (w *wire) signIn() externalauth.Spec {
	x := &externalauth.EmbeddedAuthServer{
		Issuer: w.gateway, UpstreamProviders: []externalauth.UpstreamProvider{{Name: "corp", Type: externalauth.UpstreamOAuth2, OAuth2: &externalauth.OAuth2{
			AuthorizationEndpoint: w.partner.URL + "/authorize", TokenEndpoint: w.partner.URL + "/token",
			ClientID: "c", ClientSecretRef: &externalauth.SecretRef{Name: "creds", Key: "client"}, IdentityFromToken: &externalauth.IdentityFromToken{SubjectPath: "user.id"},
		}}},
	}
	if w.durable {
		x.SigningKeySecretRefs = []externalauth.SecretRef{{Name: "creds", Key: "signing"}, {Name: "creds", Key: "signing-old"}}
		x.HMACSecretRefs = []externalauth.SecretRef{{Name: "creds", Key: "hmac"}, {Name: "creds", Key: "hmac-old"}}
	}
	return externalauth.Spec{Type: externalauth.TypeEmbeddedAuthServer, EmbeddedAuthServer: x}
}

// upstreamToken is what the provider of logins issues.
const upstreamToken = "upstream-of-ann"

// servePartner signs everybody in as ann, and exchanges tokens, for the client c.
func (w *wire) servePartner(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/authorize" {
		back := r.URL.Query().Get("redirect_uri") + "?" + url.Values{"code": {"x"}, "state": {r.URL.Query().Get("state")}}.Encode()
		http.Redirect(rw, r, back, http.StatusFound)
		return
	}
	_ = r.ParseForm()
	user, password, basic := r.BasicAuth()
	if !basic {
		user, password = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	answer := map[string]any{"access_token": upstreamToken, "token_type": "Bearer", "expires_in": 3600, "user": map[string]string{"id": "ann"}}
	if r.URL.Path == "/exchange" {
		answer["access_token"] = "exchanged-for-" + r.PostForm.Get("subject_token")
		answer["issued_token_type"] = "urn:ietf:params:oauth:token-type:access_token"
	}
	rw.Header().Set("Content-Type", "application/json")
	w.mu.Lock()
	right := w.password
	w.mu.Unlock()
	if user != "c" || password != right {
		w.Errorf("the client %q authenticates with %q", user, password)
		rw.WriteHeader(http.StatusUnauthorized)
	}
	_ = json.NewEncoder(rw).Encode(answer)
}

// record notes how a call of a tool is authenticated, and serves it.
func (w *wire) record(rw http.ResponseWriter, r *http.Request, next http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.Error(err)
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	if strings.Contains(string(body), `"tools/call"`) {
		var seen []string
		if w.typ == externalauth.TypeAWSSTS {
			session, err := wireSTS.Session(r, body, awstest.Scope{Region: "eu-central-1", Service: "aws-mcp"})
			seen = append(seen, "role "+session.Role+" for "+session.Identity)
			if err != nil {
				seen = append(seen, err.Error())
			}
		} else {
			for _, name := range []string{"X-Api-Key", "Authorization"} {
				for _, value := range r.Header.Values(name) {
					seen = append(seen, name+": "+value)
				}
			}
		}
		w.mu.Lock()
		w.received = strings.Join(seen, ", ")
		w.mu.Unlock()
	}
	next.ServeHTTP(rw, r)
}

// check calls a tool as a client that has logged in, and compares what the server received.
func (w *wire) check(want string) {
	w.Helper()
	token, subject := "", ""
	switch {
	case w.incoming == byIssuer:
		token = w.issuer.Token(w, nil)
		subject = token
	case w.incoming == bySignIn || w.typ == externalauth.TypeEmbeddedAuthServer:
		token, subject = w.login(), upstreamToken
	}
	if token != "" {
		if resp, err := http.Post(w.gateway+"/mcp", "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)); err != nil || resp.StatusCode != http.StatusUnauthorized {
			w.Errorf("a client without a token: %v, %v", resp, err)
		} else {
			resp.Body.Close()
		}
	}
	if got := mustCall(w.T, w.connect(token), "count", nil); got != "1" {
		w.Errorf("count is %s", got)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	want = strings.Replace(want, "exchanged for SUBJECT", "exchanged-for-SUBJECT", 1)
	if want = strings.Replace(want, "SUBJECT", subject, 1); w.received != want {
		w.Errorf("the server received %q\nwant %q", w.received, want)
	}
}

func (w *wire) connect(token string) *sdk.ClientSession {
	w.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	transport := &sdk.StreamableClientTransport{Endpoint: w.gateway + "/mcp", HTTPClient: &http.Client{Transport: bearer(token)}}
	session, err := client.Connect(w.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: sessionEra})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { session.Close() })
	return session
}

// Signing keys, HMAC secrets and client secrets that change are used without a restart: new
// tokens have the new key, those of before stay valid, and no call fails meanwhile.
func TestRotation_OnTheWire(t *testing.T) {
	t.Parallel()
	keys := []string{signingKey(t), signingKey(t), signingKey(t)}
	hmac := func(letter string) string { return strings.Repeat(letter, 40) }
	w := &wire{T: t, typ: externalauth.TypeTokenExchange, kind: "remote", incoming: bySignIn, durable: true}
	w.start(map[string]string{"signing": keys[1], "signing-old": keys[0], "hmac": hmac("b"), "hmac-old": hmac("a")})
	before := w.login()
	session := w.connect(before)
	mustCall(t, session, "count", nil)
	w.mu.Lock()
	w.password = "n3w"
	w.secrets.replace(map[string]string{
		"header": "injected", "token": "fixed", "client": w.password, "signing": keys[2], "signing-old": keys[1], "hmac": hmac("c"), "hmac-old": hmac("b"),
	})
	w.mu.Unlock()
	began := time.Now()
	eventually(t, "a new token has the new key", func() bool {
		mustCall(t, session, "count", nil)
		time.Sleep(200 * time.Millisecond) // logins are limited in number
		return keyID(t, w.login()) != keyID(t, before)
	})
	t.Logf("the new key is used after %s", time.Since(began).Round(time.Millisecond))
	mustCall(t, w.connect(before), "count", nil)
	mustCall(t, w.connect(w.login()), "count", nil)
}

// signingKey is a new key as PEM.
func signingKey(t *testing.T) string {
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

// keyID is the id of the key that signed a token.
func keyID(t *testing.T, token string) string {
	t.Helper()
	head, _, _ := strings.Cut(token, ".")
	content, err := base64.RawURLEncoding.DecodeString(head)
	var header struct {
		KeyID string `json:"kid"`
	}
	if err != nil || json.Unmarshal(content, &header) != nil || header.KeyID == "" {
		t.Fatalf("no header: %q, %v", content, err)
	}
	return header.KeyID
}

// bearer adds an access token to each request; none is added if it is "".
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

var loginField = regexp.MustCompile(`name="login" value="([^"]+)"`)

// login does what a client and a person at a browser do at the gateway's authorization server.
func (w *wire) login() string {
	w.Helper()
	const redirect = "https://app.example/cb"
	if w.client == "" {
		var registered struct {
			ID string `json:"client_id"`
		}
		w.post(http.DefaultClient, "/oauth/register", "application/json", `{"client_name":"App","redirect_uris":["`+redirect+`"]}`, &registered)
		w.client = registered.ID
	}
	verifier := strings.Repeat("v", 50)
	sum := sha256.Sum256([]byte(verifier))
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.Fatal(err)
	}
	code := ""
	browser := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), redirect) {
			code = r.URL.Query().Get("code")
			return http.ErrUseLastResponse
		}
		return nil
	}}
	page, err := browser.Get(w.gateway + "/oauth/authorize?" + url.Values{
		"client_id": {w.client}, "redirect_uri": {redirect}, "response_type": {"code"}, "state": {"s"}, "resource": {w.gateway + "/mcp"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode())
	if err != nil {
		w.Fatal(err)
	}
	defer page.Body.Close()
	content, err := io.ReadAll(page.Body)
	if err != nil {
		w.Fatal(err)
	}
	if code == "" { // else the consent is remembered
		form := loginField.FindSubmatch(content)
		if form == nil {
			w.Fatalf("there is no page of consent: %d %s", page.StatusCode, content)
		}
		w.post(browser, "/oauth/consent", "application/x-www-form-urlencoded", url.Values{"login": {html.UnescapeString(string(form[1]))}, "decision": {"allow"}}.Encode(), nil)
	}
	var issued struct {
		Access string `json:"access_token"`
	}
	w.post(http.DefaultClient, "/oauth/token", "application/x-www-form-urlencoded", url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "client_id": {w.client}, "redirect_uri": {redirect}, "code_verifier": {verifier},
	}.Encode(), &issued)
	if issued.Access == "" {
		w.Fatal("there is no access token")
	}
	return issued.Access
}

// post sends a request to the gateway, and decodes the response into out if it is not nil.
func (w *wire) post(client *http.Client, path, typ, body string, out any) {
	w.Helper()
	resp, err := client.Post(w.gateway+path, typ, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 400 {
		w.Fatalf("%s: %d %s, %v", path, resp.StatusCode, content, err)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(content, out); err != nil {
		w.Fatalf("%s: %v: %s", path, err, content)
	}
}
