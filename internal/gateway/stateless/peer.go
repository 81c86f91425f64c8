package stateless

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// question is a request of the server that waits for the client's answer.
type question struct {
	request  *mcp.Message
	answered chan httpd.Answer // room for one
}

// Notify implements [exchange.Peer]: it sends a notification in the POST that is open, or
// keeps it for the next.
func (c *call) Notify(m *mcp.Message) {
	c.mu.Lock()
	reply := c.reply
	if c.round > 0 && m.Method == mcp.NotificationProgress {
		m = c.progress(m)
	}
	if m != nil && c.continued() && c.unwanted(m) {
		m = nil
	}
	if reply == nil && m != nil {
		c.dropped.Add(c.notes.keep(m))
	}
	c.mu.Unlock()
	if reply == nil || m == nil {
		return
	}
	c.dropped.Note(c.front.core.Log, m, reply.Send(m))
}

// AwaitRoom implements [exchange.Peer]. While no POST is open, there is room: the newest
// notifications are kept.
func (c *call) AwaitRoom(ctx context.Context) error {
	c.mu.Lock()
	reply := c.reply
	c.mu.Unlock()
	if reply == nil {
		return nil
	}
	return reply.AwaitRoom(ctx)
}

// progress is m for the POST that continues the call: that is another request, with a
// progress token of its own, and the first one's is no longer valid (MCP 2026-07-28,
// Progress). It is nil when the POST has no token. The caller holds mu.
func (c *call) progress(m *mcp.Message) *mcp.Message {
	if c.token == nil {
		return nil
	}
	params, err := mcp.Replace(m.Params, c.token, "progressToken")
	if err != nil {
		return nil
	}
	return &mcp.Message{Method: m.Method, Params: params}
}

// unwanted reports whether m is a log message below the level of the POST that continues
// the call (MCP 2026-07-28, Logging). The caller holds mu.
func (c *call) unwanted(m *mcp.Message) bool {
	return m.Method == mcp.NotificationMessage && !mcp.GetsLog(m, c.level)
}

// OnLogLevel implements [exchange.Peer].
func (c *call) OnLogLevel(f func(level string)) {
	c.mu.Lock()
	level, continued := c.level, c.continued()
	c.onLevel = f
	c.mu.Unlock()
	if continued {
		f(level)
	}
}

// Hold implements [exchange.Peer].
func (c *call) Hold(bytes int) (release func(), err error) { return c.front.core.Hold(bytes) }

// Ask implements [exchange.Peer]: it sends the server's request with the next input_required
// result.
func (c *call) Ask(ctx context.Context, m *mcp.Message) (*mcp.Message, error) {
	capability := mcp.NeededCapability(m.Method)
	if capability == "" {
		return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "clients of protocol version 2026-07-28 do not accept " + httpd.Short(m.Method)}
	}
	if !mcp.IsMultiRound(c.exchange.Request.Method) {
		return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "in protocol version 2026-07-28 the server cannot send requests during " + httpd.Short(c.exchange.Request.Method)}
	}
	if _, declared, err := mcp.Lookup(c.exchange.Client.Capabilities, capability); err != nil || !declared {
		return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "the client did not declare the capability for " + m.Method}
	}
	release, err := c.Hold(httpd.SizeOf(m))
	if err != nil {
		return nil, err
	}
	defer release()
	q := &question{request: m, answered: make(chan httpd.Answer, 1)}
	key, err := c.addQuestion(q)
	if err != nil {
		return nil, err
	}
	defer func() {
		c.mu.Lock()
		delete(c.open, key)
		c.mu.Unlock()
		httpd.Discard(q.answered)
	}()
	select {
	case a := <-q.answered:
		a.ReleaseAfter(ctx)
		return mcp.NewResult(m.ID, a.Result), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.done:
		return nil, httpd.ErrClientGone
	}
}

func (c *call) addQuestion(q *question) (key string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= exchange.MaxQuestions {
		return "", &mcp.Error{Code: mcp.CodeInternal, Message: fmt.Sprintf("more than %d requests of the server wait for the client already", exchange.MaxQuestions)}
	}
	c.last++
	key = strconv.Itoa(c.last)
	c.open[key] = q
	c.signal()
	return key, nil
}

func (c *call) signal() {
	select {
	case c.asked <- struct{}{}:
	default:
	}
}

// notes are the notifications of a call that wait for a POST. They have a lock of their
// own, since a call is ended with the lock of parkedCalls held.
type notes struct {
	mu      sync.Mutex
	over    bool // no POST follows
	backlog httpd.Backlog
}

// keep adds a notification and returns how many were dropped.
func (n *notes) keep(m *mcp.Message) (dropped int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over {
		return 1
	}
	return n.backlog.Keep(m)
}

// take returns all events in order, except those that are unwanted, and keeps none.
func (n *notes) take(unwanted func(*mcp.Message) bool) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.backlog.Drop(unwanted)
	var all []byte
	for _, event := range n.backlog.Take() {
		all = append(all, event...)
	}
	return all
}

// close drops what is kept, and keeps nothing from then on.
func (n *notes) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
	n.backlog.Clear()
}
