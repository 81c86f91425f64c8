package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A notification that the server does not take ends with its session.
func TestANotificationDoesNotOutliveItsSession(t *testing.T) {
	t.Parallel()
	for _, tr := range transports {
		if !tr.asks {
			continue // there is no session at the server, or no more to see of it
		}
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
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

// A notification about the session goes to the session's peer, also while the only
// pending request is one whose client may have closed its stream.
func TestNotify_SessionWideDuringARequest(t *testing.T) {
	t.Parallel()
	for _, tr := range transports {
		if !tr.asks {
			continue // the server sends nothing outside of requests
		}
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			fix := newFixture()
			session := backendtest.NewPeer()
			conn := open(t, closeAfter(t, tr.backend(serve(t, tr.handler(fix.server)).URL)), session)
			conn.Listen()
			ctx, cancel := context.WithCancel(backendtest.TestContext(t))
			defer cancel()
			request, done := backendtest.NewPeer(), make(chan struct{})
			go func() {
				defer close(done)
				_, _ = conn.Do(ctx, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "wait", `{}`), request))
			}()
			<-fix.started
			fix.server.AddTool(&sdk.Tool{Name: "grown", InputSchema: json.RawMessage(`{"type":"object"}`)},
				func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
					return &sdk.CallToolResult{}, nil
				})
			session.Next(t, "notifications/tools/list_changed")
			cancel()
			<-done
			if len(request.Notes) > 0 {
				t.Errorf("the request's peer received %s", (<-request.Notes).Encode())
			}
		})
	}
}

// It does so too where the server sends it on the stream of a request's response.
func TestNotify_SessionWideOnARequestsStream(t *testing.T) {
	t.Parallel()
	s := newScript(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) {
		events(w, event(&mcp.Message{Method: mcp.NotificationResourceUpdated, Params: json.RawMessage(`{"uri":"a:b"}`)}),
			event(mcp.NewResult(m.ID, json.RawMessage(`{"content":[]}`))))
	})
	session, request := backendtest.NewPeer(), backendtest.NewPeer()
	conn := open(t, closeAfter(t, streamableBackend(serve(t, s).URL)), session)
	if m, err := conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "a", `{}`), request)); err != nil {
		t.Fatal(backendtest.Text(m, err))
	}
	session.Next(t, mcp.NotificationResourceUpdated)
	if len(request.Notes) > 0 {
		t.Errorf("the request's peer received %s", (<-request.Notes).Encode())
	}
}
