package gateway

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

const benchArguments = `{"name":"search","arguments":{"query":"the quick brown fox jumps over the lazy dog","limit":10},"_meta":{"progressToken":7}}`

// BenchmarkToolCall is one client's tools/call after another through the
// gateway to a server in memory, beside a plain HTTP server (the floor) and a
// reverse proxy in front of it, which is what there would be without us. The
// gateway has one HTTP hop where the proxy has two.
func BenchmarkToolCall(b *testing.B) {
	echoServer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
	b.Run("gateway", func(b *testing.B) {
		_, srv := serve(b, newFakeBackend(), nil, nil)
		c := newWire(b, srv).initialize(mcp.V20251125)
		benchPosts(b, srv, c.session)
	})
	b.Run("direct", func(b *testing.B) {
		srv := httptest.NewServer(echoServer)
		defer srv.Close()
		benchPosts(b, srv, "none")
	})
	b.Run("reverseproxy", func(b *testing.B) {
		behind := httptest.NewServer(echoServer)
		defer behind.Close()
		target, err := url.Parse(behind.URL)
		if err != nil {
			b.Fatal(err)
		}
		srv := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
		defer srv.Close()
		benchPosts(b, srv, "none")
	})
	b.Run("handler-only", func(b *testing.B) {
		g, srv := serve(b, newFakeBackend(), nil, nil)
		c := newWire(b, srv).initialize(mcp.V20251125)
		body := []byte(req("1", "tools/call", benchArguments))
		b.ReportAllocs()
		for b.Loop() {
			r := httptest.NewRequest("POST", "http://localhost/mcp", bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.Header.Set("Mcp-Session-Id", c.session)
			w := httptest.NewRecorder()
			g.ServeHTTP(w, r)
			if w.Code != 200 {
				b.Fatal(w.Code, w.Body)
			}
		}
	})
}

func benchPosts(b *testing.B, srv *httptest.Server, session string) {
	var next atomic.Int64
	transport := newTransport(64)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			body := req(strconv.FormatInt(next.Add(1), 10), "tools/call", benchArguments)
			r, err := http.NewRequest("POST", srv.URL+"/mcp", bytes.NewReader([]byte(body)))
			if err != nil {
				b.Error(err)
				return
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.Header.Set("Mcp-Session-Id", session)
			resp, err := client.Do(r)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 200 {
				b.Error(resp.Status)
				return
			}
		}
	})
}
