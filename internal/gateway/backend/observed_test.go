package backend

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// eras is a server whose eras can be changed while it runs.
type eras struct {
	session, sessionless, stateless atomic.Bool
	name                            atomic.Value // string
}

func (e *eras) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body := make([]byte, r.ContentLength)
	m, err := mcp.Parse(body[:must(readFull(r, body))])
	info := `{"name":"` + e.name.Load().(string) + `","version":"1"}`
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case m.Method == mcp.MethodInitialize && (e.session.Load() || e.sessionless.Load()):
		if e.session.Load() {
			w.Header().Set(mcp.HeaderSessionID, "s")
		}
		asked, _, _ := mcp.LookupString(m.Params, "protocolVersion")
		reply(w, m.ID, `{"protocolVersion":"`+asked+`","capabilities":{},"serverInfo":`+info+`}`)
	case m.Kind() == mcp.Notification:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == mcp.MethodDiscover && e.stateless.Load():
		reply(w, m.ID, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"_meta":{"`+mcp.MetaServerInfo+`":`+info+`}}`)
	case e.stateless.Load() && strings.HasPrefix(r.Header.Get(mcp.HeaderVersion), "2026"):
		reply(w, m.ID, `{"resultType":"complete"}`)
	case e.session.Load() && r.Header.Get(mcp.HeaderSessionID) == "s":
		reply(w, m.ID, `{}`)
	default:
		http.Error(w, "not of this era", http.StatusBadRequest)
	}
}

func must(n int, err error) int {
	if err != nil {
		return 0
	}
	return n
}

func TestServerInfo_LastReported(t *testing.T) {
	t.Parallel()
	server := &eras{}
	server.name.Store("first")
	server.session.Store(true)
	b := closeAfter(t, streamableBackend(serve(t, server).URL))
	is := func(when string, want exchange.ServerInfo) {
		t.Helper()
		if diff := cmp.Diff(want, b.ServerInfo()); diff != "" {
			t.Errorf("%s:\n%s", when, diff)
		}
	}
	session := func(version mcp.Version) {
		t.Helper()
		conn, err := b.Open(backendtest.TestContext(t), &exchange.Client{Version: version, Capabilities: json.RawMessage(`{}`)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	stateless := func() error {
		_, err := b.Do(backendtest.TestContext(t), statelessRequest(mcp.MethodDiscover, "", `{}`, backendtest.NewPeer()))
		return err
	}
	is("before the first client", exchange.ServerInfo{Session: "unknown", Stateless: "unknown"})

	session(mcp.LatestSession)
	is("after a session", exchange.ServerInfo{Name: "first", Version: "1", Session: "2025-11-25", Stateless: "unknown"})
	session(mcp.V20241105)
	is("after an older client", exchange.ServerInfo{Name: "first", Version: "1", Session: "2025-11-25", Stateless: "unknown"})
	if err := stateless(); err != nil {
		t.Fatal(err)
	}
	is("after a stateless client", exchange.ServerInfo{Name: "first", Version: "1", Session: "2025-11-25", Stateless: "no", StatelessTranslated: true})

	server.session.Store(false)
	server.stateless.Store(true)
	server.name.Store("second")
	session(mcp.LatestSession)
	is("after a change of the era", exchange.ServerInfo{Name: "second", Version: "1", Session: "no", Stateless: "2026-07-28", SessionTranslated: true})
	server.name.Store("third")
	if err := stateless(); err != nil {
		t.Fatal(err)
	}
	is("after a change of the name", exchange.ServerInfo{Name: "third", Version: "1", Session: "no", Stateless: "2026-07-28", SessionTranslated: true})

	server.sessionless.Store(true)
	session(mcp.LatestSession)
	is("after initialize without a session id", exchange.ServerInfo{Name: "third", Version: "1", Session: "2025-11-25", Stateless: "2026-07-28", SessionTranslated: true})

	server.stateless.Store(false)
	server.session.Store(true)
	if err := stateless(); err != nil {
		t.Fatal(err)
	}
	is("after a refusal", exchange.ServerInfo{Name: "third", Version: "1", Session: "2025-11-25", Stateless: "unknown"})
	if err := stateless(); err != nil {
		t.Fatal(err)
	}
	is("in the session era again", exchange.ServerInfo{Name: "third", Version: "1", Session: "2025-11-25", Stateless: "no", StatelessTranslated: true})
}

func TestServerInfo_ServerRefusesBothEras(t *testing.T) {
	t.Parallel()
	server := &eras{}
	server.name.Store("")
	b := closeAfter(t, streamableBackend(serve(t, server).URL))
	if conn, err := b.Open(backendtest.TestContext(t), backendtest.FullClient(), nil); err == nil {
		t.Errorf("a session: %s", conn.InitializeResult())
	}
	if got, want := b.ServerInfo(), (exchange.ServerInfo{Session: "unknown", Stateless: "no"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestServerInfo_SSE(t *testing.T) {
	t.Parallel()
	b := closeAfter(t, sseBackend("http://127.0.0.1:1/sse"))
	if got := b.ServerInfo(); got.Stateless != exchange.EraUnsupported || got.Session != exchange.EraUnknown {
		t.Errorf("%+v", got)
	}
}

func TestServerInfo_LongName(t *testing.T) {
	t.Parallel()
	h := &observed{}
	h.implementation(json.RawMessage(`{"serverInfo":{"name":"`+strings.Repeat("ä", 1<<20)+`","version":"\ud800"}}`), "serverInfo")
	if len(h.name) != maxName || h.version != "" || !strings.HasSuffix(h.name, "ä") {
		t.Errorf("%d bytes, version %q", len(h.name), h.version)
	}
}
