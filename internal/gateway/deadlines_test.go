package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// raw sends text over a connection of its own.
func raw(t *testing.T, address, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDeadlines_Body(t *testing.T) {
	for _, mode := range []string{endpoint.Streamable, endpoint.SSE} {
		t.Run(mode, func(t *testing.T) {
			_, srv := serve(t, newFakeBackend(), func(c *Config) { c.Endpoint.Mode = mode }, func(p *httpd.Timing) { p.ReadBody = 50 * time.Millisecond })
			for _, row := range []struct {
				request string
				status  int
			}{
				{"POST /nope HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n", 404},
				{"POST /nope HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", 404},
				{"POST /health HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 10\r\n\r\n", 403},
				{"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n", 200},
				{"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\n", 415},
				{"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{", 408},
				{"GET %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n", 400},
			} {
				path := "/mcp"
				if mode == endpoint.SSE {
					path = endpoint.PathMessages
					if strings.HasPrefix(row.request, "GET") {
						path = endpoint.PathSSE
					}
				}
				request := strings.Replace(row.request, "%s", path, 1)
				c := raw(t, srv.Listener.Addr().String(), request)
				_ = c.SetReadDeadline(time.Now().Add(patience))
				b, err := io.ReadAll(c) // to the end of the connection
				if err != nil || !strings.HasPrefix(string(b), fmt.Sprintf("HTTP/1.1 %d ", row.status)) {
					t.Errorf("%q: %v, %.60q", request, err, b)
				}
			}
		})
	}
}

func TestDeadlines_Response(t *testing.T) {
	_, srv := serve(t, newFakeBackend(), nil, func(p *httpd.Timing) { p.Write = 50 * time.Millisecond })
	c := raw(t, srv.Listener.Addr().String(), "")
	many := strings.Repeat("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 1000)
	for {
		_ = c.SetWriteDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(c, many); err != nil {
			if e, ok := err.(net.Error); ok && e.Timeout() {
				t.Error("the connection is still open")
			}
			return
		}
	}
}

// A stream lives longer than a body may take, also when its request has an empty one.
func TestDeadlines_StreamAfterABody(t *testing.T) {
	b := newFakeBackend()
	_, srv := serve(t, b, nil, func(p *httpd.Timing) { p.ReadBody, p.KeepAlive = 20*time.Millisecond, 10*time.Millisecond })
	c := newWire(t, srv).initialize(mcp.V20251125)
	conn := raw(t, srv.Listener.Addr().String(), "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: "+c.session+"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	// Its end is that of the connection: Close would read on until then.
	lines := bufio.NewScanner(resp.Body)
	for comments := 0; comments < 10; {
		if !lines.Scan() {
			t.Fatalf("the stream ended after %d comments", comments)
		}
		if strings.HasPrefix(lines.Text(), ":") {
			comments++
		}
	}
}
