//go:build hostile

package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/test/leak"
)

// noLeaks fails the test if goroutines started after it are left at its end.
// Call it first.
func noLeaks(t *testing.T) {
	t.Helper()
	leak.None(t)
}

// gatewayOf is a gateway before b until the test ends.
func gatewayOf(t *testing.T, b exchange.Backend) *gateway.Gateway {
	t.Helper()
	g, err := gateway.New(gateway.Config{Backend: b, Name: "hostile", Endpoint: endpoint.Config{Mode: endpoint.Streamable}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			t.Error("close the gateway:", err)
		}
	})
	return g
}

// How many rounds the four corners make: 100,000 together. Those of a translated
// one take several times as long.
const (
	sameEraRounds    = 40_000
	translatedRounds = 10_000
)

// Every client uses the same id and the same progress token, every session of
// the server asks under the same ids. Nobody ever gets anything of another's.
func TestNothingCrosses(t *testing.T) {
	noLeaks(t)
	const clients = 50
	for _, corner := range []struct{ client, server bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		t.Run(fmt.Sprintf("modern client %v, modern server %v", corner.client, corner.server), func(t *testing.T) {
			rounds := sameEraRounds
			if corner.client != corner.server {
				rounds = translatedRounds
			}
			s := &Server{Modern: corner.server}
			g := gatewayOf(t, backend.NewStreamable(backend.StreamableConfig{URL: "http://server/mcp", Transport: Wire{s}}))
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			var wg sync.WaitGroup
			var failed atomic.Int64
			for n := range clients {
				wg.Go(func() {
					for k := range rounds / clients {
						if failed.Load() > 3 {
							return
						}
						if err := crossRound(ctx, g, corner.client, n, k); err != nil {
							failed.Add(1)
							t.Errorf("client %d, round %d: %v", n, k, err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

var crossSessions sync.Map // of the clients of the session era, by gateway and number

func crossClient(ctx context.Context, g *gateway.Gateway, modern bool, n int) (*Client, error) {
	type key struct {
		g *gateway.Gateway
		n int
	}
	if c, ok := crossSessions.Load(key{g, n}); ok {
		return c.(*Client), nil
	}
	c := &Client{URL: "http://localhost/mcp", HTTP: &http.Client{Transport: Wire{g}}, Modern: modern, Capabilities: Capabilities}
	c.Answer = func(_ string, params json.RawMessage) (json.RawMessage, error) {
		nonce, _, err := mcp.LookupString(params, "message")
		return json.RawMessage(fmt.Sprintf(`{"action":"accept","content":{"nonce":%q}}`, nonce)), err
	}
	if err := c.Open(ctx); err != nil {
		return nil, err
	}
	crossSessions.Store(key{g, n}, c)
	return c, nil
}

func crossRound(ctx context.Context, g *gateway.Gateway, modern bool, n, k int) error {
	c, err := crossClient(ctx, g, modern, n)
	if err != nil {
		return err
	}
	nonce, kind := fmt.Sprintf("client %d round %d", n, k), [...]string{"", "", "", "progress", "", "", "", "ask"}[k%8]
	o, err := c.Call(ctx, mcp.IntID(7), "round", fmt.Sprintf(`{"nonce":%q,"kind":%q}`, nonce, kind), `"progressToken":"same"`)
	if err != nil {
		return err
	}
	if o.Text() != nonce || o.Response.ID != mcp.IntID(7) {
		return fmt.Errorf("%s is answered with %s", nonce, o)
	}
	for _, m := range o.Notes {
		token, _, _ := mcp.LookupString(m.Params, "progressToken")
		if got, _, _ := mcp.LookupString(m.Params, "message"); got != nonce || token != "same" {
			return fmt.Errorf("%s hears %s", nonce, m.Encode())
		}
	}
	for _, m := range o.Questions {
		if got, _, _ := mcp.LookupString(m.Params, "message"); got != nonce {
			return fmt.Errorf("%s is asked %s", nonce, m.Encode())
		}
	}
	if kind == "ask" && len(o.Questions) == 0 || kind == "progress" && len(o.Notes) == 0 {
		return fmt.Errorf("%s: %d notifications, %d questions", nonce, len(o.Notes), len(o.Questions))
	}
	return nil
}
