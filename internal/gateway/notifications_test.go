package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A notification about the session, sent during a call, reaches the client's open GET
// stream, also when the client has abandoned the call. In the session era closing a POST
// does not cancel it (MCP 2025-11-25, basic/transports, Sending Messages).
func TestNotify_SessionWideDuringAnAbandonedCall(t *testing.T) {
	for name, accept := range map[string]string{"event stream": "Accept: application/json, text/event-stream", "plain JSON": "Accept: application/json"} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBackend()
			do, entered, release, _ := held()
			b.do = do
			g, srv := serve(t, b, nil, nil)
			c := newWire(t, srv).initialize(mcp.V20251125)
			own := c.listen()
			ctx, abandon := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() {
				defer close(done)
				if resp, err := c.client.Do(c.request(ctx, "POST", "/mcp", req("1", "hold", "{}"), accept)); err == nil {
					resp.Body.Close()
				}
			}()
			peer := receive(t, "the call", entered).Peer
			abandon()
			<-done
			eventually(t, "the gateway to notice", func() bool { return inspect(t, g, c).Calls == 0 })
			peer.Notify(note(mcp.NotificationToolsChanged, `{}`))
			if m := own.message(); m == nil || m.Method != mcp.NotificationToolsChanged {
				t.Errorf("the GET stream received %+v", m)
			}
			close(release)
		})
	}
}

// While the call's own stream is open, notifications about the session still go to the GET
// stream, and those of the call to its own.
func TestNotify_StreamsDuringACall(t *testing.T) {
	b := newFakeBackend()
	do, steps := stepping()
	b.do = do
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	own := c.listen()
	e := c.startWork(steps, progress(1))
	e.wantProgress(1)
	steps <- func(_ context.Context, x *exchange.Exchange) {
		x.Peer.Notify(note(mcp.NotificationResourcesChanged, `{}`))
	}
	if m := own.message(); m == nil || m.Method != mcp.NotificationResourcesChanged {
		t.Errorf("the GET stream received %+v", m)
	}
	steps <- progress(2)
	e.wantProgress(2)
	close(steps)
	e.wantResponse(1)
}

// Without a GET stream, a notification about the session during an abandoned call waits for
// one.
func TestNotify_SessionWideWaitsForTheStream(t *testing.T) {
	b := newFakeBackend()
	do, entered, release, _ := held()
	b.do = do
	g, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	ctx, abandon := context.WithCancel(context.Background())
	go func() {
		if resp, err := c.client.Do(c.request(ctx, "POST", "/mcp", req("1", "hold", "{}"), "Accept: application/json")); err == nil {
			resp.Body.Close()
		}
	}()
	peer := receive(t, "the call", entered).Peer
	abandon()
	eventually(t, "the gateway to notice", func() bool { return inspect(t, g, c).Calls == 0 })
	peer.Notify(note(mcp.NotificationPromptsChanged, `{}`))
	if m := c.listen().message(); m == nil || m.Method != mcp.NotificationPromptsChanged {
		t.Errorf("the GET stream received %+v", m)
	}
	close(release)
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Notifications beyond the bytes that may wait on a stream are dropped. That is logged once
// per session, and counted.
func TestNotify_DroppedAreLoggedOnceAndCounted(t *testing.T) {
	var log lockedBuffer
	b := newFakeBackend()
	g, srv := serve(t, b, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) }, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	peer := receive(t, "the connection", b.conns).session
	leave := c.unread(t, "GET", "/mcp", "", "Accept: text/event-stream")
	eventually(t, "the stream", func() bool { return inspect(t, g, c).Streams == 1 })
	large := note("x", `{"x":"`+strings.Repeat("x", httpd.MaxPending/4)+`"}`)
	for range 100 {
		peer.Notify(large)
	}
	dropped := inspect(t, g, c).Dropped
	if dropped == 0 || dropped == 100 {
		t.Fatalf("%d of 100 were dropped", dropped)
	}
	if n := strings.Count(log.String(), "a notification to a client was dropped"); n != 1 {
		t.Errorf("logged %d times: %s", n, log.String())
	}
	leave()
	if a := c.send("DELETE", "/mcp", ""); a.status != 204 {
		t.Fatalf("DELETE: %d", a.status)
	}
	if !strings.Contains(log.String(), "dropped=") {
		t.Errorf("the number is not in the log: %s", log.String())
	}
}
