package httpconn

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// recorder records the requests of a server: the JSON-RPC method of a POST, and the HTTP
// method of any other.
type recorder struct {
	serve func(w http.ResponseWriter, r *http.Request, method string)

	mu       sync.Mutex
	requests []string
}

func (s *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	if body, _ := io.ReadAll(r.Body); method == http.MethodPost {
		if m, err := mcp.Parse(body); err == nil {
			method = m.Method
		}
	}
	s.mu.Lock()
	s.requests = append(s.requests, method)
	s.mu.Unlock()
	s.serve(w, r, method)
}

func (s *recorder) recorded() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// respond sends a JSON-RPC response to the request with id 0.
func respond(w http.ResponseWriter, status int, member, value string) {
	w.Header().Set("Content-Type", mcp.TypeJSON)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":0,"`+member+`":`+value+`}`)
}

const (
	discovered  = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`
	initialized = `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`
)

// TestDetect_Order: a server of the stateless era receives server/discover only, and with
// the headers and the _meta of that era; a server of the session era receives one request
// more than initialize, whatever its response to that is (MCP 2026-07-28, Versioning,
// Backward Compatibility).
func TestDetect_Order(t *testing.T) {
	t.Parallel()
	const discover, initialize = mcp.MethodDiscover, mcp.MethodInitialize
	for name, test := range map[string]struct {
		discover  func(w http.ResponseWriter)
		transport string
		requests  []string
	}{
		"stateless": {func(w http.ResponseWriter) { respond(w, 200, "result", discovered) },
			TransportStreamable, []string{discover}},
		"stateless, other version": {func(w http.ResponseWriter) {
			respond(w, 400, "error", `{"code":-32022,"message":"m","data":{"supported":["2026-07-28"],"requested":"x"}}`)
		}, TransportStreamable, []string{discover}},
		"session, -32022": {func(w http.ResponseWriter) {
			respond(w, 400, "error", `{"code":-32022,"message":"m","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}`)
		}, TransportStreamable, []string{discover, initialize, "DELETE"}},
		"session, -32601": {func(w http.ResponseWriter) { respond(w, 200, "error", `{"code":-32601,"message":"m"}`) },
			TransportStreamable, []string{discover, initialize, "DELETE"}},
		"session, 400": {func(w http.ResponseWriter) { http.Error(w, "no session", 400) },
			TransportStreamable, []string{discover, initialize, "DELETE"}},
		"session, 401": {func(w http.ResponseWriter) { w.WriteHeader(401) },
			TransportStreamable, []string{discover, initialize, "DELETE"}},
		"session, 404": {func(w http.ResponseWriter) { w.WriteHeader(404) },
			TransportStreamable, []string{discover, initialize, "DELETE"}},
		"session, 500": {func(w http.ResponseWriter) { w.WriteHeader(500) },
			TransportStreamable, []string{discover, initialize, "DELETE"}},
		"session, 202": {func(w http.ResponseWriter) { w.WriteHeader(202) },
			TransportStreamable, []string{discover, initialize, "DELETE"}},
		"session, other result": {func(w http.ResponseWriter) { respond(w, 200, "result", `{}`) },
			TransportStreamable, []string{discover, initialize, "DELETE"}},
		"session, connection closed": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
			TransportStreamable, []string{discover, initialize, "DELETE"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &recorder{serve: func(w http.ResponseWriter, r *http.Request, method string) {
				switch method {
				case discover:
					if r.Header.Get(mcp.HeaderMethod) != discover || r.Header.Get(mcp.HeaderVersion) != string(mcp.LatestStateless) {
						t.Errorf("server/discover with the headers %v", r.Header)
					}
					test.discover(w)
				case initialize:
					w.Header().Set(mcp.HeaderSessionID, "s")
					respond(w, 200, "result", initialized)
				}
			}}
			srv := httptest.NewServer(s)
			defer srv.Close()
			got, err := Detect(backendtest.TestContext(t), srv.URL, nil)
			if err != nil || got != test.transport {
				t.Errorf("Detect returned %q, %v", got, err)
			}
			if got := s.recorded(); !slices.Equal(got, test.requests) {
				t.Errorf("the server received %q, want %q", got, test.requests)
			}
		})
	}
}

// A server of HTTP+SSE has no POST at its URL: the GET comes last.
func TestDetect_OrderSSE(t *testing.T) {
	t.Parallel()
	s := &recorder{serve: func(w http.ResponseWriter, _ *http.Request, method string) {
		if method != http.MethodGet {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", mcp.TypeEventStream)
		_, _ = io.WriteString(w, "event: endpoint\ndata: /m\n\n")
	}}
	srv := httptest.NewServer(s)
	defer srv.Close()
	if got, err := Detect(backendtest.TestContext(t), srv.URL, nil); err != nil || got != TransportSSE {
		t.Errorf("Detect returned %q, %v", got, err)
	}
	if got, want := s.recorded(), []string{mcp.MethodDiscover, mcp.MethodInitialize, "GET"}; !slices.Equal(got, want) {
		t.Errorf("the server received %q, want %q", got, want)
	}
}

// A session server may never respond to an unknown method.
func TestDetect_SilentServer(t *testing.T) {
	t.Parallel()
	s := &recorder{serve: func(w http.ResponseWriter, r *http.Request, method string) {
		if method == mcp.MethodDiscover {
			<-r.Context().Done()
			return
		}
		respond(w, 200, "result", initialized)
	}}
	srv := httptest.NewServer(s)
	defer srv.Close()
	if got, err := Detect(backendtest.TestContext(t), srv.URL, nil); err != nil || got != TransportStreamable {
		t.Errorf("Detect returned %q, %v", got, err)
	}
}

// Without a connection there is one attempt.
func TestDetect_NoConnection(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	dials := 0
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		dials++
		return http.DefaultTransport.RoundTrip(r)
	})
	if got, err := Detect(backendtest.TestContext(t), srv.URL, transport); err == nil || !strings.Contains(err.Error(), "cannot be reached") || dials != 1 {
		t.Errorf("Detect returned %q, %v after %d attempts", got, err, dials)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
