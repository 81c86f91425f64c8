package backend

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Closing the response is the cancellation (MCP 2026-07-28, Cancellation).
func TestModernHTTPCancellation(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"before the headers", "on the stream", "in the body"} {
		for _, by := range []string{"client", "close"} {
			t.Run(way+" by "+by, func(t *testing.T) {
				started, ended := make(chan struct{}), make(chan struct{})
				var requests atomic.Int64
				m := modernAt(t, answerBy(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
					requests.Add(1)
					switch way {
					case "on the stream":
						events(w, event(&mcp.Message{Method: mcp.NotificationMessage, Params: json.RawMessage(`{}`)}))
					case "in the body":
						w.Header().Set("Content-Type", mcp.TypeJSON)
						_, _ = io.WriteString(w, "{")
						_ = http.NewResponseController(w).Flush()
					}
					close(started)
					<-r.Context().Done()
					close(ended)
				}))
				ctx, cancel := context.WithCancelCause(backendtest.TestContext(t))
				defer cancel(nil)
				reason := errors.New("the client went away")
				done := beginModern(ctx, m, modernExchange(backendtest.Call(mcp.IntID(7), "x", `{}`), nil))
				<-started
				if by == "client" {
					cancel(reason)
				} else {
					_ = m.Close()
				}
				_, err := backendtest.Wait(t, done)
				if by == "client" && !errors.Is(err, reason) || by == "close" && backendtest.CodeOf(err) != mcp.CodeServerGone {
					t.Error(err)
				}
				select {
				case <-ended:
				case <-time.After(backendtest.Patience):
					t.Fatal("the server is not told")
				}
				if requests.Load() != 1 {
					t.Errorf("%d requests", requests.Load())
				}
			})
		}
	}
}

func TestModernHTTPAfterClose(t *testing.T) {
	t.Parallel()
	m := modernAt(t, answerBy(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) { t.Error("it was sent") }))
	_ = m.Close()
	if _, err := m.Do(backendtest.TestContext(t), modernExchange(backendtest.Call(mcp.IntID(7), "x", `{}`), nil)); backendtest.CodeOf(err) != mcp.CodeServerGone {
		t.Error(err)
	}
}

// A server may leave its stream open after the answer.
func TestModernHTTPDoesNotWaitForTheEndOfTheStream(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	m := modernAt(t, answerBy(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
		defer close(ended)
		events(w, event(mcp.NewResult(m.ID, json.RawMessage(backendtest.Done))))
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithCancel(backendtest.TestContext(t))
	if got := backendtest.Text(m.Do(ctx, modernExchange(backendtest.Call(mcp.IntID(7), "x", `{}`), nil))); got != "done" {
		t.Error(got)
	}
	cancel() // as the front does
	select {
	case <-ended:
	case <-time.After(backendtest.Patience):
		t.Error("the stream stays open")
	}
}
