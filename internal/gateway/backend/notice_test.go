package backend

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A notification that the server does not take ends with its session.
func TestANotificationDoesNotOutliveItsSession(t *testing.T) {
	for _, tr := range transports {
		if !tr.asks {
			continue // there is no session at the server, or no more to see of it
		}
		t.Run(tr.name, func(t *testing.T) {
			backendtest.NoLeaks(t)
			handler, arrived := tr.handler(newFixture().server), make(chan struct{})
			srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					body, err := io.ReadAll(r.Body)
					if err != nil {
						return
					}
					if bytes.Contains(body, []byte(mcp.NotificationProgress)) {
						close(arrived)
						<-r.Context().Done()
						return
					}
					r.Body = io.NopCloser(bytes.NewReader(body))
				}
				handler.ServeHTTP(w, r)
			}))
			conn := open(t, closeAfter(t, tr.backend(srv.URL)), backendtest.NewPeer())
			untaken := make(chan error, 1)
			go func() {
				untaken <- conn.Notify(backendtest.TestContext(t), &mcp.Message{Method: mcp.NotificationProgress, Params: json.RawMessage(`{"progressToken":1,"progress":1}`)})
			}()
			<-arrived
			_ = conn.Close()
			if err := <-untaken; backendtest.CodeOf(err) != mcp.CodeServerGone {
				t.Errorf("got %v", err)
			}
		})
	}
}
