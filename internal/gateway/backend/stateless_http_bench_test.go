package backend

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/httpconn"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// echoHandler answers every request with the arguments it came with, as JSON or
// as a stream of one event.
func echoHandler(stream bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m, err := mcp.Parse(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer := mcp.NewResult(m.ID, json.RawMessage(`{"resultType":"complete","content":[{"type":"text","text":"hello"}]}`))
		if stream {
			w.Header().Set("Content-Type", mcp.TypeEventStream)
			_, _ = w.Write(mcp.AppendEvent(nil, event(answer)))
			return
		}
		w.Header().Set("Content-Type", mcp.TypeJSON)
		_, _ = w.Write(answer.Encode())
	})
}

// BenchmarkModernHTTP compares an exchange with the same request through a bare
// reverse proxy, which has the listener and the client in addition that a
// gateway has too: both are called here without one.
func BenchmarkModernHTTP(b *testing.B) {
	x := modernExchange(backendtest.Call(mcp.IntID(1), "echo", `{"text":"hello"}`), nil)
	for _, kind := range []struct {
		name   string
		stream bool
	}{{"json", false}, {"stream", true}} {
		server := httptest.NewServer(echoHandler(kind.stream))
		b.Cleanup(server.Close)
		b.Run(kind.name+"/proxy", func(b *testing.B) {
			target, err := url.Parse(server.URL)
			if err != nil {
				b.Fatal(err)
			}
			proxy := httputil.NewSingleHostReverseProxy(target)
			proxy.Transport = http.DefaultTransport.(*http.Transport).Clone()
			body := x.Request.Encode()
			header := http.Header{mcp.HeaderVersion: {string(mcp.V20260728)}, mcp.HeaderMethod: {x.Request.Method}}
			header.Set("Content-Type", mcp.TypeJSON)
			header.Set("Accept", mcp.TypeJSON+", "+mcp.TypeEventStream)
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/", bytes.NewReader(body))
				r.Header = header
				w := httptest.NewRecorder()
				proxy.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
		b.Run(kind.name+"/exchange", func(b *testing.B) {
			h := httpconn.NewStateless(httpconn.StreamableConfig{URL: server.URL, Log: backendtest.TestLog()}.WithDefaults())
			b.Cleanup(func() { _ = h.Close() })
			b.ReportAllocs()
			for b.Loop() {
				if answer, err := h.Do(b.Context(), x); err != nil || answer.Error != nil {
					b.Fatal(answer, err)
				}
			}
		})
	}
}

// modernExchange is m as a client of the stateless era sends it.
func modernExchange(m *mcp.Message, p exchange.Peer) *exchange.Exchange {
	client := &exchange.Client{
		Version:      mcp.V20260728,
		Capabilities: json.RawMessage(`{"elicitation":{}}`),
		Info:         json.RawMessage(`{"name":"modern","version":"1"}`),
	}
	params, err := wire.NewClientMeta(client).Into(m.Params, "")
	if err != nil {
		panic(err)
	}
	request := &mcp.Message{ID: m.ID, Method: m.Method, Params: params}
	return &exchange.Exchange{Client: client, Request: request, Meta: backendtest.MetaOf(request), Peer: p}
}
