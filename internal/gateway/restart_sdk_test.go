package gateway_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/seal"
)

// A client of the session era goes on with its session at a gateway that started
// anew, whether the session is the server's (stateful), or the gateway's alone
// (a stateless server has none).
func TestSDK_GatewayRestarts(t *testing.T) {
	for name, stateless := range map[string]bool{"at a stateful server": false, "at a stateless server": true} {
		t.Run(name, func(t *testing.T) {
			var inits atomic.Int32
			fixture := newSDKServer()
			handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return fixture },
				&sdk.StreamableHTTPOptions{Stateless: stateless, PropagateRequestCancellation: stateless})
			behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if bytes.Contains(body, []byte(`"method":"initialize"`)) {
					inits.Add(1)
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				handler.ServeHTTP(w, r)
			}))
			t.Cleanup(func() { behind.CloseClientConnections(); behind.Close() })
			key := seal.NewKey()
			start := func() (url string, stop func()) {
				g, err := gateway.New(gateway.Config{Backend: backend.NewStreamable(backend.StreamableConfig{URL: behind.URL}), Name: "fixture", Endpoint: endpoint.Config{Mode: endpoint.Streamable}, Key: key})
				if err != nil {
					t.Fatal(err)
				}
				front := httptest.NewServer(g)
				return front.URL + "/mcp", func() {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					if err := g.Close(ctx); err != nil {
						t.Error(err)
					}
					front.CloseClientConnections()
					front.Close()
				}
			}
			session := ""
			post := func(url, method, params string) (*http.Response, string) {
				r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
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
				defer resp.Body.Close()
				b, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				return resp, string(b)
			}
			const call = `{"name":"echo","arguments":{"x":1}}`
			url, stop := start()
			resp, _ := post(url, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}`)
			session = resp.Header.Get(mcp.HeaderSessionID)
			if _, body := post(url, "tools/call", call); !strings.Contains(body, `\"x\":1`) {
				t.Fatalf("before: %s", body)
			}
			stop()
			before := inits.Load()
			url, stop = start()
			if resp, body := post(url, "tools/call", call); resp.StatusCode != 200 || !strings.Contains(body, `\"x\":1`) {
				t.Errorf("after: %d %s", resp.StatusCode, body)
			}
			if n := inits.Load() - before; n > 0 {
				t.Errorf("%d initialize requests after the restart", n)
			}
			// Its end is an end at the server too, whatever gateway is asked later.
			r, err := http.NewRequest(http.MethodDelete, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set(mcp.HeaderSessionID, session)
			if resp, err := http.DefaultClient.Do(r); err != nil || resp.StatusCode != 204 {
				t.Errorf("DELETE: %v, %v", resp, err)
			} else {
				resp.Body.Close()
			}
			stop()
			if stateless {
				return
			}
			url, stop = start()
			defer stop()
			if resp, body := post(url, "tools/call", call); resp.StatusCode != 404 || !strings.Contains(body, "-32001") || !strings.Contains(body, `"id":1`) {
				t.Errorf("after the session's end: %d %s", resp.StatusCode, body)
			}
		})
	}
}
