package backend

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/stdio"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// floodMessages is how many notifications a flood has: about 64 MiB, which no buffers on the
// way hold.
const floodMessages = 4000

// pacedGateway serves the crude server, and records the gateway's log.
func pacedGateway(t *testing.T) (*httptest.Server, *record) {
	t.Helper()
	_, b := crudeBackend(t, stdio.Config{})
	log := &record{}
	g, err := gateway.New(gateway.Config{Backend: b, Name: "w", Endpoint: endpoint.Config{Mode: endpoint.Streamable}, Log: log.log()})
	if err != nil {
		t.Fatal(err)
	}
	srv := serve(t, g)
	t.Cleanup(func() { _ = g.Close(context.Background()) })
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
	resp, err := http.DefaultClient.Do(r)
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

// A server that writes faster than its client reads is held back: everything arrives.
func TestStdioPace_SlowClientReceivesEverything(t *testing.T) {
	t.Parallel()
	for name, capabilities := range map[string]string{"shared process": `{}`, "own process": `{"elicitation":{}}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, log := pacedGateway(t)
			resp := post(t, srv.URL, initialize(t, srv.URL, capabilities), callOf("flood of progress", fmt.Sprint(floodMessages)))
			lines := bufio.NewReaderSize(slowReader{resp.Body}, 64<<10)
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

// slowReader reads 64 KiB in two milliseconds at most.
type slowReader struct{ io.Reader }

func (r slowReader) Read(b []byte) (int, error) {
	time.Sleep(2 * time.Millisecond) // the pace of the client
	return r.Reader.Read(b[:min(len(b), 64<<10)])
}

// A client that does not read holds up the others for a bounded time, and what it misses is
// logged.
func TestStdioPace_ClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	srv, log := pacedGateway(t)
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

// stuck is a Peer without room. It counts how often the reader waits for it.
type stuck struct {
	exchange.PeerDefaults
	waits chan struct{}
}

func (stuck) Notify(*mcp.Message) {}

func (stuck) Ask(context.Context, *mcp.Message) (*mcp.Message, error) { return nil, nil }

func (s stuck) AwaitRoom(ctx context.Context) error {
	if ctx.Err() == nil {
		s.waits <- struct{}{}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// A server is held back once for a client that does not read, however many messages it
// sends to the client.
func TestStdioPace_WaitsOnceForAClient(t *testing.T) {
	t.Parallel()
	_, b := crudeBackend(t, stdio.Config{})
	conn := openAs(t, b, plain(), backendtest.NewPeer())
	s := stuck{waits: make(chan struct{}, 100)}
	flood := backendtest.Request(mcp.IntID(1), mcp.MethodToolsCall, `{"name":"flood of progress","arguments":{"is":"10"},"_meta":{"progressToken":"t"}}`)
	for range 2 {
		if got := backendtest.Text(conn.Do(backendtest.TestContext(t), backendtest.ExchangeOf(flood, s))); got != "after the flood" {
			t.Error(got)
		}
	}
	if len(s.waits) != 1 {
		t.Errorf("the reader waited %d times", len(s.waits))
	}
}
