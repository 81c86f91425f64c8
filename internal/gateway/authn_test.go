package gateway

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/auth"
	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/authn"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/seal"
	"github.com/toolhaven/toolhaven/test/local"
	"github.com/toolhaven/toolhaven/test/tokens"
)

// tokenIssuer is an identity provider over HTTP, with keys and introspection.
type tokenIssuer struct {
	*httptest.Server
	key    jose.JSONWebKey
	log    local.Output // of the stages that it protects
	sent   atomic.Value // the last Authorization header of a request for keys
	change func(*auth.Provider)
}

const (
	gatewayAudience = "https://tools.example/mcp"
	opaqueOfJo      = "opaque-token-of-jo"
)

func newTokenIssuer(t testing.TB) *tokenIssuer {
	t.Helper()
	return startTokenIssuer(t, (*httptest.Server).Start)
}

func startTokenIssuer(t testing.TB, start func(*httptest.Server)) *tokenIssuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &tokenIssuer{key: jose.JSONWebKey{Key: key, KeyID: "k1", Algorithm: "ES256", Use: "sig"}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": p.URL, "jwks_uri": p.URL + "/jwks"})
	})
	mux.HandleFunc("/jwks", func(w http.ResponseWriter, r *http.Request) {
		p.sent.Store(r.Header.Get("Authorization"))
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.key.Public()}})
	})
	mux.HandleFunc("/introspect", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"active": r.FormValue("token") == opaqueOfJo, "aud": gatewayAudience, "client_id": "jo"})
	})
	p.Server = httptest.NewUnstartedServer(mux)
	p.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	start(p.Server)
	t.Cleanup(p.Close)
	return p
}

// token signs claims of a good token, changed; nil removes one.
func (p *tokenIssuer) token(t testing.TB, change map[string]any) string {
	t.Helper()
	claims := map[string]any{"iss": p.URL, "aud": gatewayAudience, "sub": "jo", "exp": time.Now().Add(time.Hour).Unix(), "jti": rand.Text()}
	maps.Copy(claims, change)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: p.key}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// of returns a good token of a subject.
func (p *tokenIssuer) of(t testing.TB, subject string) string {
	return p.token(t, map[string]any{"sub": subject})
}

// protect is a change of a gateway's configuration: it requires tokens.
func (p *tokenIssuer) protect(t testing.TB) func(*Config) {
	return func(c *Config) {
		t.Helper()
		log := slog.New(slog.NewTextHandler(&p.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		provider := auth.Provider{Name: "main", IssuerURL: p.URL, Audience: gatewayAudience, IntrospectionURL: p.URL + "/introspect"}
		if p.change != nil {
			p.change(&provider)
		}
		stage, err := authn.New(authn.Config{
			Provider: provider,
			Resource: auth.ResourceConfig{Scopes: []string{"openid", "tools"}, Realm: "test"},
			Endpoint: c.Endpoint, Log: log,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stage.Close)
		c.Stages.Authenticate, c.Log = stage.Wrap, log
	}
}

// holdsNone checks that no token is in the log.
func (p *tokenIssuer) holdsNone(t testing.TB, tokens ...string) {
	t.Helper()
	for _, token := range tokens {
		for piece := range strings.SplitSeq(token, ".") {
			if len(piece) > 40 && strings.Contains(p.log.String(), piece) || strings.Contains(p.log.String(), token) {
				t.Errorf("the log holds a token:\n%s", p.log.String())
			}
		}
	}
}

// as is the client with a token.
func (c *wire) as(token string) *wire {
	with, next := *c, c.client.Transport
	if b, ok := next.(bearer); ok {
		next = b.next
	}
	with.client = &http.Client{Transport: bearer{token, next}}
	return &with
}

type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// Without a valid token nothing is served but /health and the metadata, on any path.
func TestAuthentication_RefusedTokens(t *testing.T) {
	t.Parallel()
	p := newTokenIssuer(t)
	b := newFakeBackend()
	_, srv := serve(t, b, p.protect(t), nil)
	b2 := newFakeBackend()
	_, srv2 := serve(t, b2, func(c *Config) { sseMode(c); p.protect(t)(c) }, nil)
	honest := p.token(t, nil)
	rows := tokens.Refused(t, tokens.Issuer{URL: p.URL, Audience: gatewayAudience, Key: p.key}, "http://127.0.0.1:1")
	rows = append(rows,
		tokens.Row{Rule: "RFC 7662 2.2", Name: "an opaque token that is not active", Header: tokens.Bearer("opaque-token"), Code: tokens.InvalidToken},
		tokens.Row{Rule: "RFC 9068 2.2", Name: "no subject and no client", Header: tokens.Bearer(p.token(t, map[string]any{"sub": nil})), Code: tokens.InvalidToken},
	)
	list := req("1", "tools/list", `{`+statelessMeta("")+`}`)
	json := []string{"Content-Type: application/json"}
	requests := []struct {
		name         string
		srv          *httptest.Server
		method, path string
		body         string
		headers      []string
	}{
		{"initialize", srv, "POST", "/mcp", initBody, json},
		{"stateless", srv, "POST", "/mcp", list, statelessHeaders("tools/list", "")},
		{"listen", srv, "GET", "/mcp", "", []string{"Accept: text/event-stream"}},
		{"delete", srv, "DELETE", "/mcp/", "", nil},
		{"options", srv, "OPTIONS", "/mcp", "", nil},
		{"metrics", srv, "GET", "/metrics", "", nil},
		{"elsewhere", srv, "GET", "/health/../mcp", "", nil},
		{"/sse", srv2, "GET", "/sse", "", []string{"Accept: text/event-stream"}},
		{"/messages", srv2, "POST", "/messages?session_id=x", initBody, json},
	}
	for _, r := range requests {
		endpoint := map[*httptest.Server]string{srv: "/mcp", srv2: "/sse"}[r.srv]
		challenge := fmt.Sprintf(`Bearer realm="test", resource_metadata=%q, scope="openid tools"`, r.srv.URL+"/.well-known/oauth-protected-resource"+endpoint)
		for _, c := range rows {
			wire := newWire(t, r.srv)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			request := wire.request(ctx, r.method, r.path, r.body, r.headers...)
			maps.Copy(request.Header, c.Header)
			a := wire.do(request)
			cancel()
			got := a.header.Get("WWW-Authenticate")
			want := challenge
			if c.Code != "" {
				want += fmt.Sprintf(", error=%q", c.Code)
			}
			if a.status != 401 || !strings.HasPrefix(got, want) || c.Code == "" && got != want {
				t.Errorf("%s/%s, %s: %d %q %s", c.Rule, c.Name, r.name, a.status, got, a.body)
			}
			if a.header.Get("Cache-Control") != "no-store" || strings.Contains(a.body, honest) {
				t.Errorf("%s, %s: %v %s", c.Name, r.name, a.header, a.body)
			}
			for _, value := range c.Header.Values("Authorization") {
				if _, token, _ := strings.Cut(value, " "); len(token) > 40 {
					p.holdsNone(t, token)
				}
			}
		}
	}
	if n := len(b.conns) + len(b2.conns); n > 0 {
		t.Errorf("the server was reached %d times", n)
	}
}

func TestAuthentication_AcceptedTokens(t *testing.T) {
	t.Parallel()
	p := newTokenIssuer(t)
	b := newFakeBackend()
	callers := make(chan *exchange.Caller, 10)
	b.do = func(_ context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		callers <- x.Caller
		return echo(x), nil
	}
	_, srv := serve(t, b, p.protect(t), nil)
	c := newWire(t, srv).as(p.token(t, nil)).initialize(mcp.V20251125)
	if got := receive(t, "a connection", b.conns).client.Principal; got != exchange.PrincipalOf(p.URL, "jo", "") {
		t.Errorf("the principal is %q", got)
	}
	// The session is the principal's; the caller of a request is that of its own token.
	for _, scope := range []string{"a", "a b"} {
		if a := c.as(p.token(t, map[string]any{"scope": scope})).post(req("1", "tools/list", "{}")); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		got := receive(t, "the caller", callers)
		if got == nil || got.Issuer != p.URL || got.Subject != "jo" || strings.Join(got.Scopes, " ") != scope || got.Claims["sub"] != "jo" {
			t.Errorf("the caller is %+v", got)
		}
	}
	list := req("1", "tools/list", `{`+statelessMeta("")+`}`)
	for name, token := range map[string]string{"a JWT": p.of(t, "eve"), "an opaque token": opaqueOfJo} {
		if a := newWire(t, srv).as(token).post(list, statelessHeaders("tools/list", "")...); a.status != 200 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		got := receive(t, "the caller", callers)
		if want := map[string][2]string{"a JWT": {"eve", ""}, "an opaque token": {"", "jo"}}[name]; got.Subject != want[0] || got.ClientID != want[1] {
			t.Errorf("%s: the caller is %+v", name, got)
		}
	}
	// A client without a subject is not the person of that name.
	if exchange.PrincipalOf(p.URL, "jo", "") == exchange.PrincipalOf(p.URL, "", "jo") {
		t.Error("two callers have the same principal")
	}
}

func TestAuthentication_PublicPaths(t *testing.T) {
	t.Parallel()
	p := newTokenIssuer(t)
	_, srv := serve(t, newFakeBackend(), p.protect(t), nil)
	c := newWire(t, srv)
	if a := c.send("GET", "/health", ""); a.status != 200 {
		t.Errorf("/health: %d %s", a.status, a.body)
	}
	want := fmt.Sprintf(`{"authorization_servers":[%q],"bearer_methods_supported":["header"],"resource":%q,"scopes_supported":["openid","tools"]}`+"\n", p.URL, srv.URL+"/mcp")
	const wellKnown = "/.well-known/oauth-protected-resource"
	for _, path := range []string{wellKnown, wellKnown + "/mcp", wellKnown + "/mcp/"} {
		a := c.send("GET", path, "")
		status, body := 200, want
		if strings.HasSuffix(path, "/mcp/") {
			status, body = 404, "404 page not found\n"
		}
		if d := cmp.Diff(body, a.body); a.status != status || d != "" {
			t.Errorf("%s: %d %s", path, a.status, d)
		}
	}
	for path, status := range map[string]int{wellKnown + "/other": 404, "/.well-known/openid-configuration": 404, "/.well-known/": 404} {
		if a := c.send("GET", path, ""); a.status != status {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	// A client whose token is not accepted must find the metadata.
	for _, row := range tokens.Malformed(p.token(t, nil), p.token(t, nil), "x") {
		for _, path := range []string{"/health", wellKnown, wellKnown + "/mcp"} {
			r := c.request(t.Context(), "GET", path, "")
			maps.Copy(r.Header, row.Header)
			if a := c.do(r); a.status != 200 {
				t.Errorf("%s with %s: %d", path, row.Name, a.status)
			}
		}
	}
	// The guard of Host and Origin applies to them as to every path.
	for _, header := range []string{"Host: evil.example", "Origin: https://evil.example"} {
		if a := c.send("GET", wellKnown, "", header); a.status != 403 {
			t.Errorf("%s: %d", header, a.status)
		}
	}
	// A page that is admitted can read the challenge (Fetch standard, CORS protocol).
	a := c.send("POST", "/mcp", initBody, "Origin: http://localhost:6274")
	if a.status != 401 || !strings.Contains(a.header.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") {
		t.Errorf("%d %v", a.status, a.header)
	}
	a = c.send("OPTIONS", "/mcp", "", "Origin: http://localhost:6274", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization")
	if a.status != 204 || !strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("preflight: %d %v", a.status, a.header)
	}
}

// A session exists for its principal only; for others it is unknown.
func TestAuthentication_SessionOfAnotherPrincipal(t *testing.T) {
	t.Parallel()
	p := newTokenIssuer(t)
	b := newFakeBackend()
	b.do = asking
	_, srv := serve(t, b, p.protect(t), nil)
	jo := newWire(t, srv).as(p.of(t, "jo")).initialize(mcp.V20251125)
	call := jo.stream("POST", "/mcp", req("1", "tools/call", "{}"))
	question := call.message()
	lastID := receive(t, "an event's id", call.ids)
	answer := `{"jsonrpc":"2.0","id":` + question.ID.String() + `,"result":{"of":%q}}`
	for name, token := range map[string]string{
		"another subject": p.of(t, "eve"), "the same name as a client": opaqueOfJo,
		"an empty subject and client": p.token(t, map[string]any{"sub": "", "client_id": "jo"}),
		"a subject with a NUL":        p.of(t, "jo\x00"),
	} {
		eve := jo.as(token)
		for what, a := range map[string]*rowRequest{
			"request":      {"POST", req("2", "tools/list", "{}"), nil},
			"ping":         {"POST", req("2", "ping", "{}"), nil},
			"notification": {"POST", `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, nil},
			"cancellation": {"POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, nil},
			"answer":       {"POST", fmt.Sprintf(answer, "eve"), nil},
			"stream":       {"GET", "", []string{"Accept: text/event-stream"}},
			"events":       {"GET", "", []string{"Accept: text/event-stream", "Last-Event-ID: " + lastID}},
			"delete":       {"DELETE", "", nil},
		} {
			got := eve.send(a.method, "/mcp", a.body, a.headers...)
			if got.status != 404 || got.code(t) != mcp.CodeSessionNotFound {
				t.Errorf("%s, %s: %d %s", name, what, got.status, got.body)
			}
		}
	}
	// With no token at all the session id proves nothing.
	if a := newWire(t, srv).send("DELETE", "/mcp", "", "Mcp-Session-Id: "+jo.session); a.status != 401 {
		t.Errorf("without a token: %d", a.status)
	}
	if a := jo.post(fmt.Sprintf(answer, "jo")); a.status != 202 {
		t.Errorf("the answer: %d %s", a.status, a.body)
	}
	if m := call.message(); string(m.Result) != `{"of":"jo"}` {
		t.Errorf("got %+v", m)
	}
}

// rowRequest is a request of a table.
type rowRequest struct {
	method, body string
	headers      []string
}

func TestAuthentication_SessionAfterRestart(t *testing.T) {
	t.Parallel()
	p := newTokenIssuer(t)
	server, key := &lastingServer{}, seal.NewKey()
	protect := func(c *Config, _ *lastingBackend) { p.protect(t)(c) }
	g, srv, _ := server.start(t, key, protect)
	id := newWire(t, srv).as(p.of(t, "jo")).initialize(mcp.V20251125).session
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, srv, b := server.start(t, key, protect)
	jo := newWire(t, srv).as(p.of(t, "jo"))
	jo.session = id
	if a := jo.as(p.of(t, "eve")).post(req("1", "tools/list", "{}")); a.status != 404 || a.code(t) != mcp.CodeSessionNotFound || len(b.noted) != 0 {
		t.Errorf("another principal: %d %s", a.status, a.body)
	}
	if a := jo.post(req("1", "tools/list", "{}")); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	// A gateway without authentication does not resume it: the local user is another.
	_, srv, b = server.start(t, key, nil)
	local := newWire(t, srv)
	local.session = id
	if a := local.post(req("1", "tools/list", "{}")); a.status != 404 || len(b.noted) != 0 {
		t.Errorf("without authentication: %d %s", a.status, a.body)
	}
}

func TestAuthentication_RequestStateOfAnotherPrincipal(t *testing.T) {
	t.Parallel()
	p := newTokenIssuer(t)
	for name, do := range map[string]func(context.Context, *fakeConn, *exchange.Exchange) (*mcp.Message, error){"the gateway's": asking, "the server's": askFirst} {
		b := newFakeBackend()
		b.do = do
		_, srv := serve(t, b, p.protect(t), nil)
		headers := statelessHeaders("tools/call", "add")
		capabilities := `"sampling":{},"roots":{}`
		jo := newWire(t, srv).as(p.of(t, "jo"))
		first := jo.post(req("1", "tools/call", `{"name":"add","arguments":{"a":1,"b":[2]},`+statelessMeta(capabilities)+`}`), headers...).inputRequired(t)
		var key string
		for key = range first.InputRequests {
		}
		second := strings.Replace(again("2", "add", first.RequestState, `{"`+key+`":{"roots":[]}}`), `"roots":{}`, capabilities, 1)
		if a := jo.as(p.of(t, "eve")).post(second, headers...); a.status != 400 || a.code(t) != mcp.CodeInvalidParams {
			t.Errorf("%s, another principal: %d %s", name, a.status, a.body)
		}
		if a := jo.as(p.of(t, "jo")).post(second, headers...); a.status != 200 || a.message(t).Error != nil {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

// A task belongs to the principal that created it, in both eras: the server, which receives
// no token, cannot distinguish them.
func TestAuthentication_TaskOfAnotherPrincipal(t *testing.T) {
	t.Parallel()
	p := newTokenIssuer(t)
	b := newFakeBackend()
	b.do = func(_ context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		result := `{"status":"working"}`
		switch x.Request.Method {
		case "tasks/list":
			result = `{"tasks":[{"taskId":"t-1"},{"taskId":"t-0"}],"nextCursor":"n"}`
		case mcp.MethodToolsCall:
			result = `{"task":{"taskId":"t-1","status":"working"}}`
			if x.Client.Version.IsStateless() {
				result = `{"resultType":"task","taskId":"t-2","status":"working"}`
			}
		}
		return mcp.NewResult(x.Request.ID, json.RawMessage(result)), nil
	}
	_, srv := serve(t, b, p.protect(t), nil)
	jo, eve := newWire(t, srv).as(p.of(t, "jo")).initialize(mcp.V20251125), newWire(t, srv).as(p.of(t, "eve")).initialize(mcp.V20251125)
	if a := jo.post(req("1", "tools/call", `{"name":"add","task":{}}`)); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := newWire(t, srv).as(p.of(t, "jo")).post(req("1", "tools/call", `{"name":"add",`+statelessMeta("")+`}`), statelessHeaders("tools/call", "add")...); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
		body := req("2", method, `{"taskId":"t-1"}`)
		if a := eve.post(body); a.code(t) != mcp.CodeInvalidParams {
			t.Errorf("%s by another principal: %d %s", method, a.status, a.body)
		}
		if a := jo.post(body); a.status != 200 || a.message(t).Error != nil {
			t.Errorf("%s: %d %s", method, a.status, a.body)
		}
	}
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		body := req("2", method, `{"taskId":"t-2",`+statelessMeta("")+`}`)
		for subject, refused := range map[string]bool{"eve": true, "jo": false} {
			a := newWire(t, srv).as(p.of(t, subject)).post(body, statelessHeaders(method, "t-2")...)
			if (a.message(t).Error != nil) != refused || refused && a.code(t) != mcp.CodeInvalidParams {
				t.Errorf("%s by %s: %d %s", method, subject, a.status, a.body)
			}
		}
	}
	for wire, want := range map[*wire]string{jo: `{"tasks":[{"taskId":"t-1"},{"taskId":"t-0"}],"nextCursor":"n"}`, eve: `{"tasks":[{"taskId":"t-0"}],"nextCursor":"n"}`} {
		if a := wire.post(req("3", "tasks/list", `{}`)); a.status != 200 || string(a.message(t).Result) != want {
			t.Errorf("tasks/list: %d %s, want %s", a.status, a.body, want)
		}
	}
	// One that the gateway has not seen is left to the server.
	if a := eve.post(req("2", "tasks/get", `{"taskId":"t-0"}`)); a.status != 200 || a.message(t).Error != nil {
		t.Errorf("an unknown task: %d %s", a.status, a.body)
	}
}

func TestAuthentication_SSE(t *testing.T) {
	t.Parallel()
	p := newTokenIssuer(t)
	b := newFakeBackend()
	b.do = func(_ context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		return mcp.NewResult(x.Request.ID, json.RawMessage(`{"scopes":"`+strings.Join(x.Caller.Scopes, " ")+`"}`)), nil
	}
	_, srv := serve(t, b, func(c *Config) { sseMode(c); p.protect(t)(c) }, nil)
	jo := newWire(t, srv).as(p.of(t, "jo"))
	e, path := jo.subscribe()
	if a := jo.as(p.of(t, "eve")).send("POST", path, initBody); a.status != 404 || a.code(t) != mcp.CodeSessionNotFound {
		t.Errorf("another principal: %d %s", a.status, a.body)
	}
	for _, body := range []string{initBody, req("1", "tools/list", "{}")} {
		if a := jo.as(p.token(t, map[string]any{"scope": "a b"})).send("POST", path, body, "Accept: "); a.status != 202 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		if m := e.message(); m.Error != nil || m.ID == mcp.IntID(1) && string(m.Result) != `{"scopes":"a b"}` {
			t.Errorf("got %+v", m)
		}
	}
}

// aboutToExpire is a token that is accepted for some seconds more.
func (p *tokenIssuer) aboutToExpire(t testing.TB) string {
	return p.token(t, map[string]any{"exp": time.Now().Add(8*time.Second - auth.DefaultLeeway).Unix()})
}

// A stream without an end of its own ends with its client's token. The session stays.
func TestAuthentication_StreamEndsWithTheToken(t *testing.T) {
	t.Parallel()
	p := newTokenIssuer(t)
	b := newFakeBackend()
	b.do = func(ctx context.Context, _ *fakeConn, x *exchange.Exchange) (*mcp.Message, error) {
		if x.Request.Method == mcp.MethodSubscriptionsListen {
			x.Peer.Notify(note(mcp.NotificationToolsChanged, "{}"))
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return echo(x), nil
	}
	_, srv := serve(t, b, p.protect(t), nil)
	jo := newWire(t, srv).as(p.of(t, "jo")).initialize(mcp.V20251125)
	if m := jo.as(p.aboutToExpire(t)).listen().message(); m != nil {
		t.Errorf("got %+v", m)
	}
	if a := jo.post(req("1", "tools/list", "{}")); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	// MCP 2026-07-28, subscriptions/listen: the result ends the subscription.
	listen := newWire(t, srv).as(p.aboutToExpire(t)).stream("POST", "/mcp", req("7", "subscriptions/listen", `{"notifications":{},`+statelessMeta("")+`}`), statelessHeaders("subscriptions/listen", "")...)
	if m := listen.message(); m == nil || m.Method != mcp.NotificationToolsChanged {
		t.Errorf("got %+v", m)
	}
	if m := listen.message(); m == nil || m.ID != mcp.IntID(7) || m.Result == nil {
		t.Errorf("got %+v", m)
	}
}

// A stream of HTTP+SSE ends with the last token that the client has sent.
func TestAuthentication_SSEStreamEndsWithTheLastToken(t *testing.T) {
	t.Parallel()
	p := newTokenIssuer(t)
	g, srv := serve(t, newFakeBackend(), func(c *Config) { sseMode(c); p.protect(t)(c) }, nil)
	c := newWire(t, srv)
	short, _ := c.as(p.aboutToExpire(t)).subscribe()
	long, path := c.as(p.aboutToExpire(t)).subscribe()
	jo := c.as(p.of(t, "jo"))
	if a := jo.send("POST", path, initBody, "Accept: "); a.status != 202 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if m := long.message(); m.Error != nil {
		t.Fatalf("got %+v", m)
	}
	if m := short.message(); m != nil {
		t.Errorf("got %+v", m)
	}
	eventually(t, "the session to end", func() bool { return g.Sessions() == 1 })
	// The other one was opened with a token that has expired too.
	if a := jo.send("POST", path, req("1", "tools/list", "{}"), "Accept: "); a.status != 202 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if m := long.message(); m == nil || m.Error != nil {
		t.Errorf("got %+v", m)
	}
}

// The clients of a stateless workload share a session at the server, but two principals do
// not.
func TestAuthentication_SharedSessionsAreOfOnePrincipal(t *testing.T) {
	t.Parallel()
	p := newTokenIssuer(t)
	b := newFakeBackend()
	_, srv := serve(t, b, func(c *Config) { c.Endpoint.Stateless = true; p.protect(t)(c) }, nil)
	for _, subject := range []string{"jo", "eve", "jo", "eve"} {
		c := newWire(t, srv).as(p.of(t, subject))
		if a := c.post(req("1", "tools/list", "{}"), "Mcp-Protocol-Version: 2025-11-25"); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if len(b.conns) != 2 {
		t.Fatalf("%d sessions at the server", len(b.conns))
	}
	for _, subject := range []string{"jo", "eve"} {
		if got := receive(t, "a connection", b.conns).client.Principal; got != exchange.PrincipalOf(p.URL, subject, "") {
			t.Errorf("%s: the principal is %q", subject, got)
		}
	}
}

// A provider that is down refuses tokens and does not end the gateway (specification 7).
func TestAuthentication_ProviderIsDown(t *testing.T) {
	t.Parallel()
	p := newTokenIssuer(t)
	token := p.token(t, nil)
	p.Close()
	_, srv := serve(t, newFakeBackend(), func(c *Config) { c.Endpoint.Mode = endpoint.Streamable; p.protect(t)(c) }, nil)
	c := newWire(t, srv)
	if a := c.as(token).post(initBody); a.status != 401 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := c.send("GET", "/health", ""); a.status != 200 {
		t.Errorf("/health: %d", a.status)
	}
	if !strings.Contains(p.log.String(), p.URL) {
		t.Errorf("the log does not name the URL that failed:\n%s", p.log.String())
	}
	p.holdsNone(t, token)
}

// The authorities of a file are trusted for requests to the provider, and a token
// authenticates them.
func TestAuthentication_PrivateAuthority(t *testing.T) {
	t.Parallel()
	p := startTokenIssuer(t, (*httptest.Server).StartTLS)
	dir := t.TempDir()
	authority, tokenFile := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	for file, content := range map[string][]byte{
		authority: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw}), tokenFile: []byte("token-of-the-gateway\n"),
	} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		change func(*auth.Provider)
		status int
	}{
		{"an unknown authority", nil, 401},
		{"the authority of the file", func(a *auth.Provider) { a.CACertPath, a.AuthTokenFile = authority, tokenFile }, 200},
	} {
		p.change = c.change
		_, srv := serve(t, newFakeBackend(), p.protect(t), nil)
		if a := newWire(t, srv).as(p.token(t, nil)).post(initBody); a.status != c.status {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
	}
	if got := p.sent.Load(); got != "Bearer token-of-the-gateway" {
		t.Errorf("keys were requested with %q", got)
	}
	p.holdsNone(t, "token-of-the-gateway")
}

// The token is for the gateway alone (MCP 2026-07-28, basic/authorization, Access Token
// Privilege Restriction): no server receives it.
func TestAuthentication_TokenIsNotForwarded(t *testing.T) {
	t.Parallel()
	p := newTokenIssuer(t)
	var mu sync.Mutex
	var seen bytes.Buffer
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		requests++
		_ = r.Write(&seen)
		http.Error(w, "no", http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	_, srv := serve(t, backend.NewStreamable(backend.StreamableConfig{URL: server.URL + "/mcp", Transport: transport}), p.protect(t), nil)
	token := p.token(t, nil)
	c := newWire(t, srv).as(token)
	c.post(initBody)
	c.post(req("1", "tools/list", `{`+statelessMeta("")+`}`), statelessHeaders("tools/list", "")...)
	mu.Lock()
	defer mu.Unlock()
	if requests < 2 || strings.Contains(seen.String(), token) || strings.Contains(strings.ToLower(seen.String()), "authorization:") {
		t.Errorf("%d requests:\n%s", requests, seen.String())
	}
}

// BenchmarkAuthentication is the stage alone, with a token that was validated before.
func BenchmarkAuthentication(b *testing.B) {
	p := newTokenIssuer(b)
	cfg := Config{Endpoint: endpoint.Config{Mode: endpoint.Streamable}}
	p.protect(b)(&cfg)
	h := cfg.Stages.Authenticate(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequest("POST", "/mcp", nil)
	r.Header.Set("Authorization", "Bearer "+p.token(b, nil))
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
	if w.Code != 200 {
		b.Errorf("%d", w.Code)
	}
}
