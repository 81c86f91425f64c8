package owner

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/serve"
)

// reporting records the last error given to Unresponsive.
type reporting struct {
	exchange.Backend
	last error
}

func (r *reporting) Unresponsive(err error) { r.last = err; r.Backend.Unresponsive(err) }

// A connection attempt times out sooner than a ping. The server counts as unresponsive
// then too, in either era, so that pending calls end. A refused connection is no time-out:
// the server is known to be gone.
func TestPing_ConnectionTimesOut(t *testing.T) {
	t.Parallel()
	timeout, refused := os.ErrDeadlineExceeded, io.EOF
	for _, test := range []struct {
		name      string
		stateless bool
		dial      error
		reported  bool
	}{
		{"session era", false, timeout, true},
		{"stateless era", true, timeout, true},
		{"refused", false, refused, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
			handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: test.stateless})
			s := httptest.NewServer(handler)
			defer s.Close()
			defer s.CloseClientConnections()
			var away atomic.Bool
			transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if away.Load() {
					return nil, &net.OpError{Op: "dial", Net: network, Err: test.dial}
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			}}
			o := &owner{log: slog.New(slog.DiscardHandler), reach: serve.NewReach(transport), spec: remoteSpec(s.URL, 1)}
			b := &reporting{Backend: backend.NewStreamable(backend.StreamableConfig{URL: s.URL, Transport: o.reach})}
			defer func() { _ = b.Close() }()
			w := newWatch(o, b)
			if err := w.open(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = w.conn.Close() }()
			if err := w.ping(t.Context()); err != nil || b.last != nil {
				t.Fatalf("a server that responds: %v, reported %v", err, b.last)
			}
			away.Store(true)
			if err := w.ping(t.Context()); err == nil || (b.last != nil) != test.reported {
				t.Errorf("ping returned %v, reported %v", err, b.last)
			}
		})
	}
}
