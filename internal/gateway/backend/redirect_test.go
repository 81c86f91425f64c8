package backend

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/httpconn"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A server that mounts the protocol at a path sends who leaves out the last slash
// there. Clients follow that, so we do.
func TestRedirectsWithinTheServerAreFollowed(t *testing.T) {
	t.Parallel()
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			handler := tr.handler(newFixture().server)
			var anonymous atomic.Int64
			mux := http.NewServeMux()
			mux.Handle("/at", http.RedirectHandler("/at/", http.StatusTemporaryRedirect))
			mux.HandleFunc("/at/", func(w http.ResponseWriter, r *http.Request) {
				if user, password, _ := r.BasicAuth(); user != "ada" || password != "secret" {
					anonymous.Add(1)
				}
				handler.ServeHTTP(w, r)
			})
			u, err := url.Parse(serve(t, mux).URL + "/at")
			if err != nil {
				t.Fatal(err)
			}
			u.User = url.UserPassword("ada", "secret")
			conn := open(t, closeAfter(t, tr.backend(u.String())), backendtest.NewPeer())
			if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "echo", `{"a":1}`), backendtest.NewPeer()))); got != `{"a":1}` {
				t.Errorf("got %s", got)
			}
			if n := anonymous.Load(); n > 0 {
				t.Errorf("%d requests came without the credential", n)
			}
		})
	}
}

// What could lead the call or a credential to another server, or change the request,
// is not followed, and the person is told where it would have led.
func TestOtherRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	elsewhere := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another server was asked") }))
	tests := map[string]struct {
		status      int
		to, says    string
		wantOfThese int // requests
	}{
		"to another server":               {307, elsewhere.URL + "/mcp?key=secret", " to " + elsewhere.URL + "/mcp (", 1},
		"to another server, for good":     {308, elsewhere.URL + "/mcp", " to " + elsewhere.URL + "/mcp (", 1},
		"to the same name without a port": {307, "http://127.0.0.1/mcp", " to http://127.0.0.1/mcp (", 1},
		"to another scheme":               {308, "https://HOST/mcp", "to https://", 1},
		"by another credential":           {307, "http://eve:secret@HOST/mcp", "to http://127.0.0.1:", 1},
		"as a GET":                        {303, "/mcp/", "/mcp/ (", 1},
		"as a GET, probably":              {301, "/mcp/", "/mcp/ (", 1},
		"in a circle":                     {307, "/mcp", "/mcp (", 4},
		"nowhere":                         {307, "", "redirects initialize (HTTP 307", 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				if tt.to != "" {
					w.Header().Set("Location", strings.ReplaceAll(tt.to, "HOST", r.Host))
				}
				w.WriteHeader(tt.status)
			}))
			_, err := NewStreamable(httpconn.StreamableConfig{URL: srv.URL + "/mcp", Log: backendtest.TestLog()}).(*failFast).Backend.(*bridge).sessions.Open(backendtest.TestContext(t), backendtest.FullClient(), backendtest.NewPeer())
			if err == nil || !strings.Contains(err.Error(), "redirects are not followed") || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want it to say %q", err, tt.says)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows what it should not: %v", err)
			}
			if got := int(requests.Load()); got != tt.wantOfThese {
				t.Errorf("%d requests, want %d", got, tt.wantOfThese)
			}
		})
	}
}
