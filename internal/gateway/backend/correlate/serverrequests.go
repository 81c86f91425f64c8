package correlate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

const (
	// maxRefusals bounds the refusals that are not sent yet because the server does not
	// read them, in bytes: some 26,000 requests.
	maxRefusals = 1 << 20
	refusalSize = 32 // bytes that a refusal counts in addition to its id
)

var (
	errTooManyServerRequests = &mcp.Error{Code: mcp.CodeInternal, Message: fmt.Sprintf("more than %d requests wait for the client already", wire.MaxServerRequests)}
	errFlood                 = wire.ServerGone("the server sends requests without reading the responses")
)

// ServerRequests holds the requests of a server that wait for a client's response. Each has
// a goroutine of its own, so that the reader of the connection does not block.
type ServerRequests struct {
	// send sends a response to the server. It logs its own errors.
	send func(context.Context, *mcp.Message)

	ctx  context.Context
	Stop context.CancelFunc
	wait sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running int
	open    map[mcp.ID]context.CancelFunc
	// refused requests wait for refuseAll, which sends their errors one by one.
	refused     []mcp.ID
	refusedSize int
	refusing    bool
}

// NewServerRequests returns an empty table; send sends one response to the server. The
// caller must call Close.
func NewServerRequests(send func(context.Context, *mcp.Message)) *ServerRequests {
	ctx, stop := context.WithCancel(context.Background())
	return &ServerRequests{send: send, ctx: ctx, Stop: stop, open: map[mcp.ID]context.CancelFunc{}}
}

// Start sends the server's request m to the client by ask, and sends the response or an
// error to the server, with the server's id. Start sends the response to a ping itself
// (MCP, Ping). It does not wait. On an error the caller must close the connection: the
// server sends requests without reading the responses.
func (q *ServerRequests) Start(m *mcp.Message, ask func(context.Context, *mcp.Message) (*mcp.Message, error)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	if q.running >= 2*wire.MaxServerRequests {
		return q.refuse(m.ID)
	}
	reply := func(answer *mcp.Message) {
		q.run(func() { q.send(q.ctx, answer) })
	}
	switch {
	case m.Method == mcp.MethodPing:
		reply(mcp.NewResult(m.ID, json.RawMessage(`{}`)))
		return nil
	case q.open[m.ID] != nil:
		reply(mcp.NewError(m.ID, mcp.CodeInvalidRequest, fmt.Sprintf("the id %s is in use by a request that is not answered yet", m.ID)))
		return nil
	case len(q.open) >= wire.MaxServerRequests:
		reply(&mcp.Message{ID: m.ID, Error: errTooManyServerRequests})
		return nil
	}
	// The request may wait for long. Its params are copied so that the buffer in which the
	// message arrived can be freed.
	m = &mcp.Message{ID: m.ID, Method: m.Method, Params: bytes.Clone(m.Params)}
	ctx, cancel := context.WithCancel(q.ctx)
	q.open[m.ID] = cancel
	q.run(func() {
		defer cancel() // after the response was sent
		answer, err := ask(ctx, m)
		q.forget(m.ID)
		switch {
		case ctx.Err() != nil:
			return // the server cancelled the request, or is gone
		case err != nil:
			answer = mcp.ErrorResponse(m.ID, mcp.CodeInternal, err)
		default:
			answer = &mcp.Message{ID: m.ID, Result: answer.Result, Error: answer.Error}
		}
		q.send(q.ctx, answer)
	})
	return nil
}

// refuse sends an error for a request beyond the bound. The caller holds mu.
func (q *ServerRequests) refuse(id mcp.ID) error {
	size := len(id.String()) + refusalSize
	if q.refusedSize+size > maxRefusals {
		return errFlood
	}
	q.refused, q.refusedSize = append(q.refused, id), q.refusedSize+size
	if !q.refusing {
		q.refusing = true
		q.wait.Go(q.refuseAll)
	}
	return nil
}

func (q *ServerRequests) refuseAll() {
	for {
		q.mu.Lock()
		ids := q.refused
		q.refused = nil
		if len(ids) == 0 || q.ctx.Err() != nil {
			q.refusing = false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		for _, id := range ids {
			if q.ctx.Err() != nil {
				break
			}
			q.send(q.ctx, &mcp.Message{ID: id, Error: errTooManyServerRequests})
			q.mu.Lock()
			q.refusedSize -= len(id.String()) + refusalSize
			q.mu.Unlock()
		}
	}
}

// run starts f in a goroutine. The caller holds mu.
func (q *ServerRequests) run(f func()) {
	q.running++
	q.wait.Go(func() {
		f()
		q.mu.Lock()
		defer q.mu.Unlock()
		q.running--
	})
}

func (q *ServerRequests) forget(id mcp.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, id)
}

// Pending reports whether a request waits for the client's response.
func (q *ServerRequests) Pending() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.open) > 0
}

// Cancel handles the server's notifications/cancelled: it cancels the request that it
// names.
func (q *ServerRequests) Cancel(m *mcp.Message) {
	id, ok := mcp.CancelledID(m)
	if !ok {
		return
	}
	q.mu.Lock()
	cancel := q.open[id]
	q.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// Close cancels all requests and waits until none runs.
func (q *ServerRequests) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.Stop()
	q.wait.Wait()
}
