package backend

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// beginModern plays x out meanwhile.
func beginModern(ctx context.Context, m wire.Stateless, x *exchange.Exchange) <-chan backendtest.Outcome {
	done := make(chan backendtest.Outcome, 1)
	go func() {
		answer, err := m.Do(ctx, x)
		done <- backendtest.Outcome{M: answer, Err: err}
	}()
	return done
}

// isOtherEra reports whether err says that the server is of the session era.
func isOtherEra(err error) bool {
	var era *wire.OtherEraError
	return errors.As(err, &era)
}

func discoverExchange() *exchange.Exchange {
	return modernExchange(backendtest.Request(mcp.IntID(0), mcp.MethodDiscover, `{}`), nil)
}

// listen begins a subscription and returns when it is acknowledged.
func listen(ctx context.Context, t *testing.T, m wire.Stateless, id mcp.ID) (p *backendtest.Peer, done <-chan backendtest.Outcome) {
	t.Helper()
	p = backendtest.NewPeer()
	done = beginModern(ctx, m, modernExchange(backendtest.Request(id, mcp.MethodSubscriptionsListen, `{"notifications":{"toolsListChanged":true}}`), p))
	mustBelong(t, p.Next(t, mcp.NotificationSubscribed).Params, id)
	return p, done
}

func mustBelong(t *testing.T, params json.RawMessage, id mcp.ID) {
	t.Helper()
	raw, _, err := mcp.Lookup(params, "_meta", mcp.MetaSubscription)
	if got, _ := mcp.AsID(raw); err != nil || got != id {
		t.Errorf("subscription %s, want %s", params, id)
	}
}
