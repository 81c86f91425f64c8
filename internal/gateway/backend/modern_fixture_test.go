package backend

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// beginModern plays x out meanwhile.
func beginModern(ctx context.Context, m modern, x *exchange.Exchange) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		answer, err := m.Do(ctx, x)
		done <- outcome{answer, err}
	}()
	return done
}

// isOtherEra reports whether err says that the server is of the session era.
func isOtherEra(err error) bool {
	var era *otherEra
	return errors.As(err, &era)
}

func discoverExchange() *exchange.Exchange {
	return modernExchange(request(mcp.IntID(0), mcp.MethodDiscover, `{}`), nil)
}

// listen begins a subscription and returns when it is acknowledged.
func listen(ctx context.Context, t *testing.T, m modern, id mcp.ID) (p *peer, done <-chan outcome) {
	t.Helper()
	p = newPeer()
	done = beginModern(ctx, m, modernExchange(request(id, mcp.MethodSubscriptionsListen, `{"notifications":{"toolsListChanged":true}}`), p))
	mustBelong(t, p.next(t, mcp.NotificationSubscribed).Params, id)
	return p, done
}

func mustBelong(t *testing.T, params json.RawMessage, id mcp.ID) {
	t.Helper()
	raw, _, err := mcp.Lookup(params, "_meta", mcp.MetaSubscription)
	if got, _ := mcp.AsID(raw); err != nil || got != id {
		t.Errorf("subscription %s, want %s", params, id)
	}
}
