package stateless

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// call is a request of a client until its response. It may take several POSTs: when the
// server sends a request, the POST is answered with input_required and the call waits,
// parked, for the POST that brings the answers (MCP 2026-07-28, Multi Round-Trip Requests).
// It is the exchange's [exchange.Peer]: peer.go.
//
//	running ──request of the server──> parked ──POST with answers──> running
//	running ──response──> done
//	running ──client disconnects──> cancelled
//	parked  ──timeout, eviction──> cancelled
//
// The lock order is call.mu, then parkedCalls.mu, then notes.mu.
type call struct {
	front    *Front
	id       string // in requestStates
	exchange *exchange.Exchange
	cancel   context.CancelCauseFunc
	done     chan struct{} // closed when response is set
	response *mcp.Message
	asked    chan struct{} // holds a token when there is a new request of the server
	dropped  httpd.Drops

	// The mutex of parkedCalls guards these.
	parked time.Time // since when it waits; zero while a POST is open
	timer  *time.Timer
	body   *httpd.Reservation // for the body of the first POST
	answer *httpd.Reservation // for a response that no POST waits for yet

	mu      sync.Mutex
	reply   *httpd.Reply    // of the POST that is open; nil while parked
	token   json.RawMessage // progress token of the POST that continues the call; nil for none, and while parked
	level   string          // log level of that POST; "" for none
	onLevel func(string)
	open    map[string]*question
	last    int   // number of the newest question
	round   int   // POSTs answered so far; a requestState is valid for the next one
	notes   notes // that wait for a POST
}

var (
	errAbandoned   = &mcp.Error{Code: mcp.CodeServerGone, Message: "the client did not send the answers in time"}
	errUndelivered = &mcp.Error{Code: mcp.CodeServerGone, Message: "the server's request did not reach the client"}
	errNoLonger    = &mcp.Error{Code: mcp.CodeInvalidParams, Message: "the call of this requestState no longer waits; make it again"}
)

// begin starts the call x. first is the context of its first POST: the stages find its values,
// but the call may outlive that POST. body is the reservation for the body that it came in.
func (f *Front) begin(first context.Context, x *exchange.Exchange, body *httpd.Reservation) *call {
	c := &call{
		front: f, id: rand.Text(), exchange: x, body: body, done: make(chan struct{}), asked: make(chan struct{}, 1),
		open: map[string]*question{},
	}
	c.notes.backlog = httpd.NewBacklog(&f.core.Held)
	var ctx context.Context
	ctx, c.cancel = context.WithCancelCause(withValues{f.core.Context, first})
	x.Peer = c
	body.Retain()
	go func() {
		defer body.Release()
		defer close(c.done)
		defer c.cancel(nil)
		defer c.dropped.Report(f.core.Log, "a call")
		c.response = c.keep(f.core.Outcome(ctx, x))
	}()
	return c
}

// withValues is a context that has the values of another one too.
type withValues struct {
	context.Context
	values context.Context
}

func (c withValues) Value(key any) any {
	// First its own: package context finds the parent of a cancellation by a value.
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// serve responds to one POST of the call c, with its response or with requests of the
// server. m is the POST's request, which has an id of its own each time.
func (f *Front) serve(p *httpd.Post, c *call, m *mcp.Message) {
	reply := f.core.NewReply(p)
	c.attach(reply)
	reply.Start()
	response, err := f.next(p, c)
	if err != nil {
		response = mcp.ErrorResponse(m.ID, mcp.CodeServerGone, err)
	}
	c.detach(reply)
	if !reply.Finish(responseStatus(response), []*mcp.Message{{ID: m.ID, Result: response.Result, Error: response.Error}}, false) {
		// The client has no requestState to continue with.
		f.parked.remove(c)
		c.cancel(errUndelivered)
	}
}

// next waits for the response to a POST.
func (f *Front) next(p *httpd.Post, c *call) (*mcp.Message, error) {
	for {
		select {
		case <-c.done:
			f.parked.remove(c)
			sealed, err := f.sealServerState(c.exchange, c.response.Result)
			return &mcp.Message{Result: sealed, Error: c.response.Error}, err
		case <-c.asked:
			if !c.gather(p.R.Context()) {
				continue
			}
			result, err := c.park()
			if err != nil {
				c.cancel(err)
			}
			if result == nil && err == nil {
				continue // the server cancelled its request
			}
			return &mcp.Message{Result: result}, err
		case <-p.R.Context().Done():
			// Closing the stream cancels (MCP 2026-07-28, Cancellation).
			c.cancel(httpd.ErrClientGone)
			<-c.done
			f.parked.remove(c)
			return nil, httpd.ErrClientGone
		}
	}
}

// gather waits a little for more requests of the server; false when the call or the POST
// has ended first.
func (c *call) gather(client context.Context) bool {
	timer := time.NewTimer(c.front.core.Timing.Gather)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.done:
	case <-client.Done():
	}
	return false
}

// park returns the result with all open requests of the server, and lets the call wait for
// the POST that answers them. It is nil when there is none.
func (c *call) park() (json.RawMessage, error) {
	c.mu.Lock()
	if len(c.open) == 0 {
		c.mu.Unlock()
		return nil, nil
	}
	requests := make(map[string]mcp.InputRequest, len(c.open))
	for key, q := range c.open {
		requests[key] = mcp.InputRequest{Method: q.request.Method, Params: q.request.Params}
	}
	c.round++
	round := c.round
	c.mu.Unlock()
	c.front.parked.add(c)
	return mcp.InputRequired(requests, c.front.seal(c.exchange, requestState{Call: c.id, Round: round}))
}

// keep reserves room for a response that no POST waits for. Without room it becomes an
// error.
func (c *call) keep(response *mcp.Message) *mcp.Message {
	c.mu.Lock()
	parked := c.round > 0 && c.reply == nil
	c.mu.Unlock()
	if !parked {
		return response
	}
	reserved, ok := c.front.core.Held.Reserve(httpd.SizeOf(response))
	if !ok {
		return &mcp.Message{ID: response.ID, Error: httpd.ErrAnswerRoom}
	}
	c.front.parked.keepAnswer(c, reserved)
	return response
}

// attach makes reply the way to the client and sends the notifications that waited for one.
func (c *call) attach(reply *httpd.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reply = reply
	events := c.notes.take(func(m *mcp.Message) bool { return c.continued() && c.unwanted(m) })
	if len(events) > 0 {
		reply.SendEvents(events)
	}
}

func (c *call) detach(reply *httpd.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reply == reply {
		c.reply, c.token = nil, nil
	}
}

// continued reports whether a POST after the first continues the call, or has. The caller
// holds mu.
func (c *call) continued() bool { return c.round > 1 }
