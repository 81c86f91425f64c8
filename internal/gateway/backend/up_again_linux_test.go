package backend

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/stdio"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Servers that wait for an answer take another log level meanwhile, and what they log
// afterwards goes to the POST that brought the answer and asked for it.
func TestServersLogToTheRoundThatAsksForIt(t *testing.T) {
	t.Parallel()
	members := map[string]string{"stdio": `"name":"ask","arguments":{"is":"elicitation/create"}`}
	backends := map[string]func(*testing.T) exchange.Backend{
		"stdio": func(t *testing.T) exchange.Backend { _, b := crudeBackend(t, stdio.Config{}); return b },
	}
	for _, transport := range transports {
		if transport.asks {
			members[transport.name] = `"name":"elicit","arguments":{}`
			backends[transport.name] = func(t *testing.T) exchange.Backend {
				return transport.backend(serve(t, transport.handler(newFixture().server)).URL)
			}
		}
	}
	for name, start := range backends {
		t.Run(name, func(t *testing.T) {
			srv := front(t, start(t))
			for _, row := range []struct {
				levels [2]string
				want   []string
			}{
				{levels: [2]string{"", "info"}, want: []string{"answered"}},
				{levels: [2]string{"info", ""}},
			} {
				logs, result := callRound(t, srv.URL, members[name], row.levels[0], "")
				state, _, _ := mcp.LookupString(result.Result, "requestState")
				if state == "" || logs != nil {
					t.Fatalf("got %s after %v", result.Encode(), logs)
				}
				logs, result = callRound(t, srv.URL, members[name], row.levels[1], state)
				if kind, _, _ := mcp.LookupString(result.Result, "resultType"); kind != mcp.ResultComplete {
					t.Fatalf("got %s", result.Encode())
				}
				if d := cmp.Diff(row.want, logs); d != "" {
					t.Errorf("with the levels %q: %s", row.levels, d)
				}
			}
		})
	}
}
