package backend

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/httpconn"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// The headers of the first call are compared too: the gateway does not know yet that the
// server, which is of the session era, does not compare them itself.
func TestDo_FirstCallHeadersAreCompared(t *testing.T) {
	t.Parallel()
	s := newScript(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) {
		switch m.Method {
		case mcp.MethodDiscover:
			http.Error(w, "no session", http.StatusBadRequest)
		case mcp.MethodToolsList:
			reply(w, m.ID, `{"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]}`)
		default:
			reply(w, m.ID, `{"content":[]}`)
		}
	})
	b := closeAfter(t, streamableBackend(serve(t, s).URL))
	x := statelessRequest(mcp.MethodToolsCall, `"name":"a","arguments":{"region":"eu"}`, `{}`, backendtest.NewPeer())
	x.Headers = http.Header{"Mcp-Param-Region": {"us"}}
	_, err := b.Do(backendtest.TestContext(t), x)
	var rpc *mcp.Error
	if !errors.As(err, &rpc) || rpc.Code != mcp.CodeHeaderMismatch {
		t.Errorf("got %v; the server saw %s", err, s.seen())
	}
}

// odd is a server of the stateless era that does not refuse initialize as one should.
type odd struct {
	initialize func(http.ResponseWriter, *mcp.Message)
	refusals   atomic.Int64 // of requests to come, with UnsupportedProtocolVersion
}

func (s *odd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, err := mcp.Parse(body)
	switch {
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusOK)
	case err != nil:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case s.refusals.Add(-1) >= 0:
		w.Header().Set("Content-Type", mcp.TypeJSON)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":""}}}`, m.ID)
	case m.Method == mcp.MethodInitialize:
		s.initialize(w, m)
	case m.Method == mcp.MethodDiscover:
		reply(w, m.ID, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`)
	default:
		reply(w, m.ID, `{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`)
	}
}

// The server/discover request is sent when the response to initialize has no version of
// the session era, and is sent again when it is refused with UnsupportedProtocolVersion
// (MCP 2026-07-28, Versioning). The official client suite has such servers.
func TestOpen_StatelessServerAnswersInitialize(t *testing.T) {
	t.Parallel()
	result := func(session, body string) func(http.ResponseWriter, *mcp.Message) {
		return func(w http.ResponseWriter, m *mcp.Message) {
			if session != "" {
				w.Header().Set(mcp.HeaderSessionID, session)
			}
			reply(w, m.ID, body)
		}
	}
	for name, test := range map[string]struct {
		initialize func(http.ResponseWriter, *mcp.Message)
		refusals   int64
	}{
		"version 2026-07-28 and a session id": {result("s", `{"resultType":"complete","protocolVersion":"2026-07-28","serverInfo":{"name":"s","version":"1"},"capabilities":{}}`), 0},
		"version 2026-07-28":                  {result("", `{"protocolVersion":"2026-07-28","capabilities":{}}`), 0},
		"no version":                          {result("", `{"resultType":"complete"}`), 0},
		"first request refused":               {result("", `{"resultType":"complete"}`), 1},
		"first two requests refused":          {result("", `{"resultType":"complete"}`), 2},
		"plain refusal": {func(w http.ResponseWriter, _ *mcp.Message) {
			http.Error(w, "Bad Request", http.StatusBadRequest)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &odd{initialize: test.initialize}
			url := serve(t, s).URL
			if got, err := httpconn.Detect(backendtest.TestContext(t), url, nil); err != nil || got != TransportStreamable {
				t.Errorf("Detect returned %q, %v", got, err)
			}
			s.refusals.Store(test.refusals)
			conn := open(t, closeAfter(t, streamableBackend(url)), nil)
			m, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), mcp.MethodToolsList, `{}`), nil))
			if err != nil || m.Error != nil {
				t.Errorf("tools/list: %s", backendtest.Text(m, err))
			}
		})
	}
}

// roundTrip is a function as an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A server that accepts initialize without a token refuses it for the era. The client
// receives the reason why no other request can be sent, not that of initialize, for which it
// would initialize again.
func TestOpen_StatelessServerWithoutCredential(t *testing.T) {
	t.Parallel()
	ended := &mcp.Error{Code: mcp.CodeServerGone, Message: "the login at the server has ended"}
	s := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := mcp.Parse(body)
		if err != nil {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", mcp.TypeJSON)
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}`, m.ID)
	})
	for name, client := range map[string]*exchange.Client{"a client": backendtest.FullClient(), "the owner": ownClient()} {
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get(mcp.HeaderMethod) == mcp.MethodDiscover {
				return nil, ended
			}
			return http.DefaultTransport.RoundTrip(r)
		})
		b := closeAfter(t, NewStreamable(StreamableConfig{URL: serve(t, s).URL, Transport: transport}))
		if _, err := b.Open(backendtest.TestContext(t), client, nil); !errors.Is(err, ended) {
			t.Errorf("%s: got %v, want %v", name, err, ended)
		}
	}
}

// A server of neither era fails with the reason for which initialize failed.
func TestOpen_ServerOfNoKnownVersion(t *testing.T) {
	t.Parallel()
	s := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := mcp.Parse(body)
		if err != nil || m.Method != mcp.MethodInitialize {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		reply(w, m.ID, `{"protocolVersion":"1999-01-01","capabilities":{}}`)
	})
	_, err := closeAfter(t, streamableBackend(serve(t, s).URL)).Open(backendtest.TestContext(t), backendtest.FullClient(), nil)
	if err == nil || !strings.Contains(err.Error(), "1999-01-01") {
		t.Errorf("got %v", err)
	}
}

// ownClient is the owner's client: see [exchange.Client], LivenessCheck.
func ownClient() *exchange.Client {
	client := backendtest.FullClient()
	client.Version, client.Capabilities, client.LivenessCheck = mcp.LatestSession, json.RawMessage(`{}`), true
	return client
}

// The gateway's own session sends server/discover first, and initialize to a server of the
// session era only.
func TestOpen_LivenessCheckProbesFirst(t *testing.T) {
	t.Parallel()
	discovers := func(versions string) func(http.ResponseWriter, mcp.ID) {
		return func(w http.ResponseWriter, id mcp.ID) {
			reply(w, id, `{"resultType":"complete","supportedVersions":`+versions+`,"capabilities":{}}`)
		}
	}
	for name, test := range map[string]struct {
		discover func(http.ResponseWriter, mcp.ID)
		requests string
	}{
		"stateless era": {discovers(`["2026-07-28"]`), "POST server/discover"},
		"both eras": {discovers(`["2026-07-28","2025-11-25"]`),
			"POST server/discover, POST initialize, POST notifications/initialized"},
		"session era": {func(w http.ResponseWriter, _ mcp.ID) { w.WriteHeader(http.StatusBadRequest) },
			"POST server/discover, POST initialize, POST notifications/initialized"},
		"connection closed": {func(http.ResponseWriter, mcp.ID) { panic(http.ErrAbortHandler) },
			"POST server/discover, POST initialize, POST notifications/initialized"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) { test.discover(w, m.ID) })
			b := closeAfter(t, streamableBackend(serve(t, s).URL))
			if _, err := b.Open(backendtest.TestContext(t), ownClient(), nil); err != nil {
				t.Fatal(err)
			}
			if got := s.seen(); got != test.requests {
				t.Errorf("the server received %s, want %s", got, test.requests)
			}
		})
	}
}

// A cached DiscoverResult does not make a server that is gone pass for one that responds.
func TestOpen_LivenessCheckContactsTheServer(t *testing.T) {
	t.Parallel()
	s := newScript(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) { reply(w, m.ID, backendtest.Everything) })
	srv := serve(t, s)
	b := closeAfter(t, streamableBackend(srv.URL))
	for range 2 {
		conn, err := b.Open(backendtest.TestContext(t), ownClient(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	if got := s.seen(); got != "POST server/discover, POST server/discover" {
		t.Errorf("the server received %s", got)
	}
	srv.Close()
	if _, err := b.Open(backendtest.TestContext(t), ownClient(), nil); err == nil {
		t.Error("a session with a server that is gone")
	}
}

// A server that did not respond to server/discover in time is probed again: it was slow
// once, and may be of the stateless era. When it begins a session it is not probed again,
// so that no request waits for a response that will not arrive.
func TestDiscover_CachesResponsesOnly(t *testing.T) {
	t.Parallel()
	const impatient = 20 * time.Millisecond
	for name, session := range map[string]bool{"slow": false, "silent, with sessions": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var probes atomic.Int64
			var silent atomic.Bool
			silent.Store(true)
			s := newScript(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
				switch {
				case m.Method != mcp.MethodDiscover:
					reply(w, m.ID, `{"resultType":"complete","tools":[]}`)
				case probes.Add(1) > 0 && silent.Load():
					<-r.Context().Done()
				default:
					reply(w, m.ID, backendtest.Everything)
				}
			})
			b := closeAfter(t, streamableBackend(serve(t, s).URL))
			ctx := backendtest.TestContext(t)
			eras := b.(*failFast).Backend.(*bridge)
			if info, err := eras.probe.discover(ctx, impatient); err == nil {
				t.Fatalf("server/discover: %s", info)
			}
			if got := b.ServerInfo().Stateless; got != exchange.EraUnknown {
				t.Errorf("before a response the stateless era is %q", got)
			}
			if session {
				open(t, b, nil)
			} else {
				silent.Store(false)
			}
			if m, err := b.Do(ctx, statelessRequest(mcp.MethodToolsList, "", `{}`, nil)); err != nil || m.Error != nil {
				t.Errorf("tools/list: %s", backendtest.Text(m, err))
			}
			want, most := exchange.EraVersion(mcp.LatestStateless), int64(2)
			if session {
				want, most = exchange.EraUnsupported, 1
			}
			if got := b.ServerInfo().Stateless; got != want || probes.Load() > most {
				t.Errorf("the stateless era is %q after %d probes, want %q after %d", got, probes.Load(), want, most)
			}
		})
	}
}
