package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// notices is how many notifications of a session may wait for the server.
const notices = 100

const progressed = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`

// stuck is a backend whose server takes no notification until release is closed; begun
// receives one value for each that waits.
func stuck() (b *fakeBackend, begun, release chan struct{}) {
	b, begun, release = newFakeBackend(), make(chan struct{}, 2*notices), make(chan struct{})
	b.notify = func(ctx context.Context) error {
		begun <- struct{}{}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err() // as net/http's
		}
	}
	return b, begun, release
}

// A server that takes no notifications does not make us keep any number of them, whose
// clients may have left.
func TestForward_Bounded(t *testing.T) {
	b, begun, release := stuck()
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv).initialize(mcp.V20251125)
	for range notices {
		ctx, cancel := context.WithCancel(context.Background())
		left := make(chan struct{})
		go func() {
			defer close(left)
			if resp, err := c.client.Do(c.request(ctx, http.MethodPost, "/mcp", progressed)); err == nil {
				_ = resp.Body.Close()
			}
		}()
		receive(t, "a notification on its way", begun)
		cancel()
		<-left
	}
	if a := c.post(progressed); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("one more: %d %s", a.status, a.body)
	}
	if a := c.post(req("1", "echo", "{}")); a.status != 200 {
		t.Errorf("a request meanwhile: %d %s", a.status, a.body)
	}
	close(release)
	eventually(t, "room for another", func() bool { return c.post(progressed).status == 202 })
}

func TestForward_TimesOut(t *testing.T) {
	b, _, _ := stuck()
	_, srv := serve(t, b, nil, func(p *httpd.Timing) { p.Notice = 10 * time.Millisecond })
	c := newWire(t, srv).initialize(mcp.V20251125)
	if a := c.post(progressed); a.status != 502 || !strings.Contains(a.body, "did not accept the notification") {
		t.Errorf("got %d %s", a.status, a.body)
	}
}
