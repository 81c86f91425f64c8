package backend

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/stdio"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// floodMessages is how many notifications a flood has: about 10 MiB. The buffers of a stream
// hold 8 MiB, and those of a connection of pacedGateway little.
const (
	floodMessages = 640
	socketBuffer  = 64 << 10
)

// pacedGateway serves the crude server, and records the gateway's log.
func pacedGateway(t *testing.T, roomTime time.Duration) (*httptest.Server, *record) {
	t.Helper()
	_, b := crudeBackend(t, stdio.Config{RoomTime: roomTime})
	log := &record{}
	g, err := gateway.New(gateway.Config{Backend: b, Name: "w", Endpoint: endpoint.Config{Mode: endpoint.Streamable}, Log: log.log()})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(g)
	srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(socketBuffer)
		return ctx
	}
	srv.Start()
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		_ = g.Close(context.Background())
	})
	return srv, log
}

// post sends a message of the session, which is "" before initialize.
func post(t *testing.T, url, session, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(backendtest.TestContext(t), http.MethodPost, url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", mcp.TypeJSON)
	r.Header.Set("Accept", mcp.TypeJSON+", "+mcp.TypeEventStream)
	if session != "" {
		r.Header.Set(mcp.HeaderSessionID, session)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			_ = c.(*net.TCPConn).SetReadBuffer(socketBuffer)
		}
		return c, err
	}}
	t.Cleanup(transport.CloseIdleConnections)
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// initialize begins a session of a client with those capabilities.
func initialize(t *testing.T, url, capabilities string) (session string) {
	t.Helper()
	resp := post(t, url, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"c","version":"1"}}}`)
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.Header.Get(mcp.HeaderSessionID)
}

func callOf(tool, arg string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"is":%q},"_meta":{"progressToken":"t"}}}`, tool, arg)
}

// A server that writes faster than its client reads is held back: everything arrives. Not
// parallel: it needs the processor for itself.
func TestStdioPace_SlowClientReceivesEverything(t *testing.T) {
	for name, capabilities := range map[string]string{"shared process": `{}`, "own process": `{"elicitation":{}}`} {
		t.Run(name, func(t *testing.T) {
			srv, log := pacedGateway(t, time.Minute) // no drop on a slow machine
			resp := post(t, srv.URL, initialize(t, srv.URL, capabilities), callOf("flood of progress", fmt.Sprint(floodMessages)))
			lines := bufio.NewReaderSize(&slowReader{Reader: resp.Body}, 64<<10)
			next := 0
			for {
				line, err := lines.ReadBytes('\n')
				if err != nil {
					t.Fatalf("after %d messages: %v", next, err)
				}
				data, found := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
				if !found || len(data) == 0 {
					continue
				}
				m, err := mcp.Parse(data)
				if err != nil {
					t.Fatal(err)
				}
				if m.Kind() == mcp.Response {
					break
				}
				if number, _, _ := mcp.Lookup(m.Params, "progress"); string(number) != fmt.Sprint(next) {
					t.Fatalf("message %s, want %d\n%s", number, next, log)
				}
				next++
			}
			if next != floodMessages {
				t.Errorf("%d messages, want %d\n%s", next, floodMessages, log)
			}
		})
	}
}

// slowReader reads 16 MiB in a second at most.
type slowReader struct {
	io.Reader
	ahead int // bytes since the last pause
}

func (r *slowReader) Read(b []byte) (int, error) {
	if r.ahead >= 128<<10 {
		r.ahead = 0
		time.Sleep(8 * time.Millisecond) // the pace of the client
	}
	n, err := r.Reader.Read(b)
	r.ahead += n
	return n, err
}

// A client that does not read holds up the others for a bounded time, and what it misses is
// logged. Not parallel: it needs the processor for itself.
func TestStdioPace_ClientThatDoesNotRead(t *testing.T) {
	srv, log := pacedGateway(t, 0)
	other := initialize(t, srv.URL, `{}`)
	post(t, srv.URL, initialize(t, srv.URL, `{}`), callOf("flood of progress", fmt.Sprint(floodMessages)))
	resp := post(t, srv.URL, other, callOf("echo", "served"))
	if answer, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(answer), "served") {
		t.Errorf("a client of the same process: %s, %v", answer, err)
	}
	if !strings.Contains(log.String(), "a notification to a client was dropped") {
		t.Errorf("the log has no dropped notification: %s", log)
	}
}

// gated is a Peer that has room when open is closed. It counts the notifications, and the
// times that the reader waits for it.
type gated struct {
	exchange.PeerDefaults
	received atomic.Int64
	waits    chan struct{}
	open     chan struct{}
}

func newGated() *gated {
	return &gated{waits: make(chan struct{}, 100), open: make(chan struct{})}
}

func (g *gated) Notify(*mcp.Message) { g.received.Add(1) }

func (g *gated) Ask(context.Context, *mcp.Message) (*mcp.Message, error) { return nil, nil }

func (g *gated) AwaitRoom(ctx context.Context) error {
	if ctx.Err() == nil {
		g.waits <- struct{}{}
	}
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func floodOf(messages int) *mcp.Message {
	return backendtest.Request(mcp.IntID(1), mcp.MethodToolsCall,
		fmt.Sprintf(`{"name":"flood of progress","arguments":{"is":"%d"},"_meta":{"progressToken":"t"}}`, messages))
}

// The reader passes on no further message before the client has room.
func TestStdioPace_WaitsForRoom(t *testing.T) {
	t.Parallel()
	_, b := crudeBackend(t, stdio.Config{})
	for name, client := range map[string]*exchange.Client{"shared": plain(), "own": elicits()} {
		conn := openAs(t, b, client, backendtest.NewPeer())
		g := newGated()
		done := begin(backendtest.TestContext(t), conn, backendtest.ExchangeOf(floodOf(10), g))
		<-g.waits
		if n := g.received.Load(); n != 1 {
			t.Errorf("%s: %d notifications were passed on to a client without room", name, n)
		}
		close(g.open)
		if got := backendtest.Text(backendtest.Wait(t, done)); got != "after the flood" || g.received.Load() != 10 {
			t.Errorf("%s: %s after %d notifications", name, got, g.received.Load())
		}
	}
}

// A server is held back once for a client that does not read, however many messages it
// sends to the client.
func TestStdioPace_WaitsOnceForAClient(t *testing.T) {
	t.Parallel()
	_, b := crudeBackend(t, stdio.Config{})
	conn := openAs(t, b, plain(), backendtest.NewPeer())
	g := newGated()
	call := func() {
		t.Helper()
		if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(floodOf(10), g))); got != "after the flood" {
			t.Error(got)
		}
	}
	call()
	call()
	if len(g.waits) != 1 || g.received.Load() != 20 {
		t.Errorf("the reader waited %d times, and passed on %d notifications", len(g.waits), g.received.Load())
	}
}
