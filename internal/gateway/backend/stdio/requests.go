package stdio

import (
	"context"
	"log/slog"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/correlate"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// requests sends requests to a process and waits for their responses.
type requests struct {
	*writer
	pending *correlate.RequestTable
	log     *slog.Logger
	// farewells are short messages that are sent before the standard input is closed:
	// cancellations, and the end of subscriptions.
	farewells wire.Group
}

// roundTrip sends the request of x and waits for the response. ctx ends when the client
// cancels or disconnects. sent reports whether the server may have received the request.
func (r *requests) roundTrip(ctx context.Context, x *exchange.Exchange) (answer *mcp.Message, sent bool, err error) {
	peer := wire.NewCallPeer(x.Peer)
	defer peer.Detach()
	f, out, err := r.pending.Add(x, peer)
	if err != nil {
		return nil, false, err
	}
	if err := r.send(ctx, out); err != nil {
		r.pending.Remove(f)
		return nil, false, err
	}
	answer, err = f.Wait(ctx)
	if err != nil && ctx.Err() != nil {
		peer.Detach()
		r.cancel(f)
		return nil, true, context.Cause(ctx)
	}
	return answer, true, err
}

// handshake initializes the server on behalf of client, and returns its InitializeResult
// (MCP, Lifecycle, Initialization). session receives what belongs to it; it may be nil.
// negotiated is called with the version, before the server receives the last message.
func (r *requests) handshake(ctx context.Context, client *exchange.Client, session exchange.Peer, negotiated func(mcp.Version)) ([]byte, error) {
	init, err := wire.InitializeRequest(client)
	if err != nil {
		return nil, err
	}
	f, out, err := r.pending.Add(&exchange.Exchange{Client: client, Request: init}, session)
	if err != nil {
		return nil, err
	}
	defer r.pending.Remove(f)
	if err := r.send(ctx, out); err != nil {
		return nil, err
	}
	answer, err := f.Wait(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	version, err := wire.NegotiatedVersion("the server", answer)
	if err != nil {
		return nil, err
	}
	negotiated(version)
	return answer.Result, r.send(ctx, wire.InitializedNotification())
}

// cancel sends the server the cancellation of f.
func (r *requests) cancel(f *correlate.PendingRequest) {
	if !r.pending.Orphan(f) {
		return
	}
	r.farewells.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wire.FarewellTimeout)
		defer cancel()
		err := r.send(ctx, f.Cancelled())
		if err == nil {
			err = r.flush(ctx)
		}
		if err != nil && r.lifetime.Err() == nil {
			r.log.Warn("a cancellation did not reach the server", "method", f.Method, "error", err)
		}
	})
}

// suspend fails the pending requests with why, and later ones until resume. It sends their
// cancellations.
func (r *requests) suspend(why error) {
	ended := r.pending.Suspend(why)
	r.farewells.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wire.FarewellTimeout)
		defer cancel()
		for _, f := range ended {
			if r.send(ctx, f.Cancelled()) != nil {
				return
			}
		}
	})
}

// resume ends a suspension.
func (r *requests) resume() { r.pending.Resume() }

// sendAnswer sends the response to a request of the server.
func (r *requests) sendAnswer(ctx context.Context, m *mcp.Message) {
	if err := r.send(ctx, m); err != nil && r.lifetime.Err() == nil {
		r.log.Warn("a response did not reach the server", "id", m.ID.String(), "error", err)
	}
}
