package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// maxQuestions bounds how many requests of one server may wait for a client.
const maxQuestions = 64

// questions are the requests of a server that wait for a client's answer. Each
// is asked on a goroutine of its own, so that reading goes on meanwhile.
type questions struct {
	// send sends an answer to the server. Its error is logged by itself.
	send func(context.Context, *mcp.Message)

	ctx  context.Context
	stop context.CancelFunc
	wait sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running int
	open    map[mcp.ID]context.CancelFunc
}

// newQuestions makes the table; send sends one answer to the server. close
// must be called.
func newQuestions(send func(context.Context, *mcp.Message)) *questions {
	ctx, stop := context.WithCancel(context.Background())
	return &questions{send: send, ctx: ctx, stop: stop, open: map[mcp.ID]context.CancelFunc{}}
}

// put asks the server's request q by ask, and sends what comes of it: the
// client's answer or an error, always with the server's id. A ping is answered
// at once: it asks whether the other end of this connection is alive, and that
// is we. put does not wait.
func (q *questions) put(m *mcp.Message, ask func(context.Context, *mcp.Message) (*mcp.Message, error)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if q.running >= 2*maxQuestions {
		return // a flood: there is no room left even for refusals
	}
	reply := func(answer *mcp.Message) {
		q.run(func() { q.send(q.ctx, answer) })
	}
	switch {
	case m.Method == mcp.MethodPing:
		reply(mcp.NewResult(m.ID, json.RawMessage(`{}`)))
		return
	case q.open[m.ID] != nil:
		reply(mcp.NewError(m.ID, mcp.CodeInvalidRequest, fmt.Sprintf("the id %s is in use by a request that is not answered yet", m.ID)))
		return
	case len(q.open) >= maxQuestions:
		reply(mcp.NewError(m.ID, mcp.CodeInternal, fmt.Sprintf("more than %d requests wait for the client already", maxQuestions)))
		return
	}
	ctx, cancel := context.WithCancel(q.ctx)
	q.open[m.ID] = cancel
	q.run(func() {
		defer cancel()
		answer, err := ask(ctx, m)
		q.forget(m.ID)
		switch {
		case ctx.Err() != nil:
			return // the server took the question back, or is gone
		case err != nil:
			answer = mcp.ErrorResponse(m.ID, mcp.CodeInternal, err)
		default:
			answer = &mcp.Message{ID: m.ID, Result: answer.Result, Error: answer.Error}
		}
		q.send(q.ctx, answer)
	})
}

// run starts f; the caller holds mu.
func (q *questions) run(f func()) {
	q.running++
	q.wait.Go(func() {
		f()
		q.mu.Lock()
		defer q.mu.Unlock()
		q.running--
	})
}

func (q *questions) forget(id mcp.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, id)
}

// cancel handles the server's notifications/cancelled: the question it names is
// taken back. It reports whether m named one.
func (q *questions) cancel(m *mcp.Message) bool {
	raw, found, err := mcp.Lookup(m.Params, "requestId")
	if err != nil || !found {
		return false
	}
	id, ok := mcp.AsID(raw)
	if !ok {
		return false
	}
	q.mu.Lock()
	cancel := q.open[id]
	q.mu.Unlock()
	if cancel == nil {
		return false
	}
	cancel()
	return true
}

// close takes all questions back and waits until none runs.
func (q *questions) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.stop()
	q.wait.Wait()
}
