package backend

import (
	"errors"
	"net/http"
	"testing"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// The first call that a gateway sees is held to the rule, too: it is not known yet then
// that the server, which is of the session era, does not compare headers itself.
func TestTheFirstCallsHeadersAreCompared(t *testing.T) {
	backendtest.NoLeaks(t)
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
