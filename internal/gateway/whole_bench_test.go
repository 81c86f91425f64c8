package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// plainServer answers any request as fast as an MCP server can.
func plainServer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	m, err := mcp.Parse(body)
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	case m.Kind() != mcp.Request:
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result := `{"content":[{"type":"text","text":"found nothing"}]}`
	if m.Method == mcp.MethodInitialize {
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"plain","version":"1"}}`
		w.Header().Set(mcp.HeaderSessionID, "one")
	}
	if m.Method == mcp.MethodDiscover {
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
	}
	w.Header().Set("Content-Type", mcp.TypeJSON)
	_, _ = w.Write(mcp.NewResult(m.ID, []byte(result)).Encode())
}

// BenchmarkThroughHTTP is a tools/call through the gateway to a streamable HTTP
// server, beside httputil.ReverseProxy in front of the same server. The product
// may cost at most 1.3 times as much.
func BenchmarkThroughHTTP(b *testing.B) {
	behind := httptest.NewServer(http.HandlerFunc(plainServer))
	defer behind.Close()
	target, err := url.Parse(behind.URL)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("gateway", func(b *testing.B) {
		g, err := gateway.New(gateway.Config{Backend: backend.NewStreamable(backend.StreamableConfig{URL: behind.URL}), Endpoint: endpoint.Config{Mode: endpoint.Streamable}})
		if err != nil {
			b.Fatal(err)
		}
		defer g.Close(context.Background())
		b.Run("session", func(b *testing.B) { benchCalls(b, g, false) })
		b.Run("stateless", func(b *testing.B) { benchCalls(b, g, true) })
	})
	b.Run("reverseproxy", func(b *testing.B) {
		transport := &http.Transport{MaxIdleConnsPerHost: 32}
		defer transport.CloseIdleConnections()
		benchCalls(b, &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}, false)
	})
}

func benchCalls(b *testing.B, h http.Handler, stateless bool) {
	srv := httptest.NewServer(h)
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	defer client.CloseIdleConnections()
	post := func(session, body string) (*http.Response, error) {
		r, err := http.NewRequest(http.MethodPost, srv.URL+"/mcp", bytes.NewReader([]byte(body)))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", mcp.TypeJSON)
		r.Header.Set("Accept", "application/json, text/event-stream")
		switch {
		case session != "":
			r.Header.Set(mcp.HeaderSessionID, session)
		case stateless:
			r.Header.Set(mcp.HeaderVersion, string(mcp.LatestStateless))
			r.Header.Set(mcp.HeaderMethod, mcp.MethodToolsCall)
			r.Header.Set(mcp.HeaderName, "search")
		}
		resp, err := client.Do(r)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("got %s", resp.Status)
		}
		return resp, nil
	}
	session, meta := "", `"progressToken":7`
	if stateless {
		meta += `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
	} else {
		session = begin(b, post)
	}
	var next atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search","arguments":{"query":"the quick brown fox","limit":10},"_meta":{%s}}}`, next.Add(1), meta)
			if _, err := post(session, body); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// begin begins a session and returns its id.
func begin(b *testing.B, post func(session, body string) (*http.Response, error)) string {
	b.Helper()
	resp, err := post("", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}`)
	if err != nil {
		b.Fatal(err)
	}
	return resp.Header.Get(mcp.HeaderSessionID)
}
