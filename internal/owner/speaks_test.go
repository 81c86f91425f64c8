package owner

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// A server at a URL is replaced by one of another name and era: status shows it.
func TestStatusShowsTheProtocolVersionsOfTheServer(t *testing.T) {
	at := func(name string, stateless bool) http.Handler {
		server := sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, nil)
		return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: stateless})
	}
	var now atomic.Pointer[http.Handler]
	var away http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	old, next := at("old", false), at("new", true)
	now.Store(&old)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*now.Load()).ServeHTTP(w, r) }))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	r := start(t, server.URL, nil)
	r.waitReady(t)
	is := func(name string, want *workload.Speaks) func() bool {
		return func() bool {
			st := r.status(t)
			return st.Server == name && cmp.Equal(st.Speaks, want)
		}
	}
	waitFor(t, "versions at the start", is("old 1", &workload.Speaks{Session: "2025-11-25", Stateless: "no", Translated: []string{"stateless"}}))
	now.Store(&away)
	waitFor(t, "degraded", func() bool { return r.status(t).State == workload.Degraded })
	now.Store(&next)
	waitFor(t, "versions of the next server", is("new 1", &workload.Speaks{Session: "2025-11-25", Stateless: "2026-07-28", Translated: []string{"session"}}))
}
