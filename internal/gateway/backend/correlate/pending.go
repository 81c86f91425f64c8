package correlate

import (
	"context"
	"encoding/json"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// PendingRequest is a request that was sent and has no response yet. It may outlive its
// caller, so it does not refer to the params.
type PendingRequest struct {
	ID       mcp.ID // used toward the server
	ClientID mcp.ID // used by the client
	Method   string
	Peer     exchange.Peer   // the exchange's, never nil
	token    json.RawMessage // the client's progress token, nil for none
	number   int64
	wire     mcp.ID // the token used toward the server, as an ID so that it is comparable
	logs     bool   // stateless era: it requests log messages
	orphan   bool   // it was cancelled: see [RequestTable.Orphan]
	Done     chan struct{}
	Answer   *mcp.Message // set with Err before Done is closed
	Err      error
	// onEnd is called when f ends, except by DeliverTo. It must not block.
	onEnd func()
}

// Wait returns the server's response with the client's id, or the reason why there is none.
// If ctx ends first, the error is ctx.Err(), and the caller cancels f at the server.
func (f *PendingRequest) Wait(ctx context.Context) (*mcp.Message, error) {
	select {
	case <-f.Done:
		return f.Answer, f.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Cancelled returns the notification that cancels f at the server (MCP, Cancellation).
func (f *PendingRequest) Cancelled() *mcp.Message {
	return mcp.Cancelled(f.ID, "the client cancelled the request")
}

// pendingSet holds requests by the id used toward the server. It has no lock of its own: it
// is guarded by [RequestTable].mu.
type pendingSet map[mcp.ID]*PendingRequest

// named returns the request that a server refers to by id, nil for none.
func (s pendingSet) named(id mcp.ID) *PendingRequest {
	if f := s[id]; f != nil {
		return f
	}
	return s[id.AsNumber()] // a server may return the number as a string
}

// listening returns the listen request with the id, nil for none.
func (s pendingSet) listening(id mcp.ID) *PendingRequest {
	if f := s.named(id); f != nil && f.Method == mcp.MethodSubscriptionsListen {
		return f
	}
	return nil
}

// byToken returns the newest request with the token: a client that uses one twice means its
// latest request. On a shared connection the token is the request's id.
func (s pendingSet) byToken(token mcp.ID, shared bool) *PendingRequest {
	if token.IsZero() {
		return nil
	}
	if shared {
		if f := s.named(token); f != nil && f.token != nil {
			return f
		}
		return nil
	}
	return s.newest(func(f *PendingRequest) bool { return f.wire == token })
}

// only returns the sole request, nil if there are none or several.
func (s pendingSet) only() *PendingRequest {
	if len(s) != 1 {
		return nil
	}
	for _, f := range s {
		return f
	}
	return nil
}

// onlyCall returns the pending request to which a notification of that method belongs if it
// carries no association; nil if no request or several can be meant. Listen requests are
// not counted: their messages carry a subscription id. For log messages, only requests that
// name a log level are counted, since the server sends none for the others (MCP 2026-07-28,
// Logging).
func (s pendingSet) onlyCall(method string) *PendingRequest {
	var only *PendingRequest
	for _, f := range s {
		if f.Method == mcp.MethodSubscriptionsListen || method == mcp.NotificationMessage && !f.logs {
			continue
		}
		if only != nil {
			return nil
		}
		only = f
	}
	return only
}

// newest returns the newest request for which match returns true, nil for none.
func (s pendingSet) newest(match func(*PendingRequest) bool) *PendingRequest {
	var newest *PendingRequest
	for _, f := range s {
		if match(f) && (newest == nil || f.number > newest.number) {
			newest = f
		}
	}
	return newest
}

// complete ends f with the response m.
func (s pendingSet) complete(f *PendingRequest, m *mcp.Message) {
	f.Answer = &mcp.Message{ID: f.ClientID, Result: m.Result, Error: m.Error}
	s.end(f)
}

// fail ends f with err.
func (s pendingSet) fail(f *PendingRequest, err error) {
	f.Err = err
	s.end(f)
}

// end removes f, whose Answer or Err is set.
func (s pendingSet) end(f *PendingRequest) {
	delete(s, f.ID)
	close(f.Done)
	if f.onEnd != nil {
		f.onEnd()
	}
}
