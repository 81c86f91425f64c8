package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// modernCall is a request of a client of the stateless era while it is played
// out. It may take several POSTs: when the server asks something, the POST is
// answered with input_required and the call waits, parked, for the one that
// brings the answers (MCP 2026-07-28, Multi Round-Trip Requests). It is the
// exchange's [exchange.Peer].
type modernCall struct {
	exchange.PeerDefaults
	g        *Gateway
	id       string    // in the states it is found by
	parked   time.Time // since when it waits; zero while a POST is open
	timer    *time.Timer
	body     *loan // of what it came in
	answer   *loan // of a response that nobody waits for yet
	exchange *exchange.Exchange
	cancel   context.CancelCauseFunc
	done     chan struct{} // closed when response is there
	response *mcp.Message
	asked    chan struct{} // holds a token when there is something new to ask

	mu      sync.Mutex
	reply   *reply          // of the POST that is open; nil while parked
	token   json.RawMessage // of progress for the POST that goes on with the call; nil for none, and while parked
	level   string          // of log messages that it asks for, "" for none
	onLevel func(string)    // is told; nil when nobody cares
	open    map[string]*question
	last    int   // question's number
	round   int   // POSTs answered so far; a state is good for the next one
	notes   notes // that wait for a POST
}

// question waits for the client's answer to what the server asked.
type question struct {
	request  *mcp.Message
	answered chan clientAnswer // room for one
}

var (
	errAbandoned = &mcp.Error{Code: mcp.CodeServerGone, Message: "the client did not come back with the answers in time"}
	errUnasked   = &mcp.Error{Code: mcp.CodeServerGone, Message: "the question did not reach the client"}
	errNoLonger  = &mcp.Error{Code: mcp.CodeInvalidParams, Message: "the call that this requestState belongs to waits no longer; make it again"}
)

// begin plays x out in the background. l is the loan of the body that it came in.
func (g *Gateway) begin(x *exchange.Exchange, l *loan) *modernCall {
	c := &modernCall{
		g: g, id: rand.Text(), exchange: x, body: l, done: make(chan struct{}), asked: make(chan struct{}, 1),
		open: map[string]*question{},
	}
	c.notes.backlog.memory = &g.backlogs
	var ctx context.Context
	ctx, c.cancel = context.WithCancelCause(g.ctx)
	x.Peer = c
	l.keep()
	g.goroutines.run(func() {
		defer l.drop()
		defer close(c.done)
		defer c.cancel(nil)
		c.response = c.kept(g.outcome(ctx, x))
	}, g.ctx.Done())
	return c
}

// carry answers one POST of the call c, with its outcome or with what the server
// asks. m is the POST's request, which has an id of its own each time.
func (g *Gateway) carry(p *post, c *modernCall, m *mcp.Message) {
	reply := p.reply(g, nil)
	c.attach(reply)
	reply.start()
	response, err := g.next(p, c)
	if err != nil {
		response = mcp.ErrorResponse(m.ID, mcp.CodeServerGone, err)
	}
	c.detach(reply)
	if !reply.finish(statusOf(response), []*mcp.Message{{ID: m.ID, Result: response.Result, Error: response.Error}}, false) {
		// If it was a question, nobody can come back with the answer.
		g.parked.remove(c)
		c.cancel(errUnasked)
	}
}

// kept is the response as it is kept for a client that is not there, when nobody
// waits for it.
func (c *modernCall) kept(response *mcp.Message) *mcp.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.round == 0 || c.reply != nil {
		return response
	}
	l, ok := c.g.outbound.lend(sizeOf(response), smallSize)
	if !ok {
		return &mcp.Message{ID: response.ID, Error: errAnswerRoom}
	}
	c.g.parked.lend(c, l)
	return response
}

// next waits for what the POST is answered with.
func (g *Gateway) next(p *post, c *modernCall) (*mcp.Message, error) {
	for {
		select {
		case <-c.done:
			g.parked.remove(c)
			sealed, err := g.sealState(c.exchange, c.response.Result)
			return &mcp.Message{Result: sealed, Error: c.response.Error}, err
		case <-c.asked:
			// A server that asks several things at once is answered at once.
			if !c.settled(p.r.Context()) {
				continue
			}
			result, err := c.park()
			if err != nil {
				c.cancel(err)
			}
			if result == nil && err == nil {
				continue // the server took its question back
			}
			return &mcp.Message{Result: result}, err
		case <-p.r.Context().Done():
			// Closing the stream cancels (MCP 2026-07-28, Cancellation).
			c.cancel(errClientGone)
			<-c.done
			g.parked.remove(c)
			return nil, errClientGone
		}
	}
}

// settled waits a little for more questions; false when something else has
// happened that comes first.
func (c *modernCall) settled(client context.Context) bool {
	timer := time.NewTimer(c.g.pace.gather)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.done:
	case <-client.Done():
	}
	return false
}

// attach makes reply the way to the client and sends what waited for one.
func (c *modernCall) attach(reply *reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reply = reply
	events := c.notes.take(func(m *mcp.Message) bool { return c.continued() && c.unwanted(m) })
	if len(events) > 0 {
		if st := reply.open(); st != nil {
			st.pushRaw(events)
		}
	}
}

func (c *modernCall) detach(reply *reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reply == reply {
		c.reply, c.token = nil, nil
	}
}

// Notify sends a notification on the POST that is open, or keeps it for the next.
func (c *modernCall) Notify(m *mcp.Message) {
	c.mu.Lock()
	reply := c.reply
	if c.round > 0 && m.Method == mcp.NotificationProgress {
		m = c.progress(m)
	}
	if m != nil && c.continued() && c.unwanted(m) {
		m = nil
	}
	if reply == nil && m != nil {
		c.notes.keep(m)
	}
	c.mu.Unlock()
	if reply != nil && m != nil {
		reply.Notify(m)
	}
}

// progress is m for the POST that goes on with the call: that is another request,
// with a progressToken of its own, and the first one's is known no more (MCP
// 2026-07-28, Progress). It is nil when nobody asked to hear of it. The caller holds
// mu.
func (c *modernCall) progress(m *mcp.Message) *mcp.Message {
	if c.token == nil {
		return nil
	}
	params, err := mcp.Replace(m.Params, c.token, "progressToken")
	if err != nil {
		return nil
	}
	return &mcp.Message{Method: m.Method, Params: params}
}

// continued: another POST goes on with the call than the first, or has. The caller
// holds mu.
func (c *modernCall) continued() bool { return c.round > 1 }

// unwanted: m is a log message that the POST which goes on with the call does not
// ask for; whatever the first one did, each says it for itself (MCP 2026-07-28,
// Logging). The caller holds mu.
func (c *modernCall) unwanted(m *mcp.Message) bool {
	return m.Method == mcp.NotificationMessage && !mcp.GetsLog(m, c.level)
}

// OnLogLevel is of [exchange.Peer].
func (c *modernCall) OnLogLevel(f func(level string)) {
	c.mu.Lock()
	level, continued := c.level, c.continued()
	c.onLevel = f
	c.mu.Unlock()
	if continued {
		f(level)
	}
}

// Ask puts the server's question to the client with the next input_required
// result.
func (c *modernCall) Ask(ctx context.Context, m *mcp.Message) (*mcp.Message, error) {
	capability := mcp.NeededCapability(m.Method)
	if capability == "" {
		return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "clients of protocol version 2026-07-28 cannot be asked for " + short(m.Method)}
	}
	if !mcp.IsMultiRound(c.exchange.Request.Method) {
		return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "in protocol version 2026-07-28 " + short(c.exchange.Request.Method) + " cannot ask its client for anything"}
	}
	if _, declared, err := mcp.Lookup(c.exchange.Client.Capabilities, capability); err != nil || !declared {
		return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "the client did not declare that it can be asked for " + m.Method}
	}
	release, err := c.g.asked.hold(sizeOf(m))
	if err != nil {
		return nil, err
	}
	defer release()
	q := &question{request: m, answered: make(chan clientAnswer, 1)}
	key, err := c.put(q)
	if err != nil {
		return nil, err
	}
	defer func() {
		c.mu.Lock()
		delete(c.open, key)
		c.mu.Unlock()
		unwanted(q.answered)
	}()
	select {
	case a := <-q.answered:
		a.until(ctx)
		return mcp.NewResult(m.ID, a.result), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.done:
		return nil, errClientGone
	}
}

func (c *modernCall) put(q *question) (key string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= maxQuestions {
		return "", &mcp.Error{Code: mcp.CodeInternal, Message: fmt.Sprintf("more than %d questions wait for the client already", maxQuestions)}
	}
	c.last++
	key = strconv.Itoa(c.last)
	c.open[key] = q
	c.signal()
	return key, nil
}

func (c *modernCall) signal() {
	select {
	case c.asked <- struct{}{}:
	default:
	}
}

// park writes the result that asks all open questions, and lets the call wait
// for the POST that answers them. It is nil when there is none.
func (c *modernCall) park() (json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) == 0 {
		return nil, nil
	}
	requests := make(map[string]mcp.InputRequest, len(c.open))
	for key, q := range c.open {
		requests[key] = mcp.InputRequest{Method: q.request.Method, Params: q.request.Params}
	}
	// An outcome that comes meanwhile is kept for the client as long.
	c.g.parked.add(c, c.g.pace.parked)
	c.round++
	return mcp.InputRequired(requests, c.g.seal(c.exchange, state{Call: c.id, Round: c.round}))
}
