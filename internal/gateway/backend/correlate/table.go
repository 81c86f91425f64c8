package correlate

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
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

// RequestTable holds the pending requests of a connection by the id used toward the
// server, and attributes the server's messages: a response by its id, a progress
// notification by its token. Any other belongs to the sole pending request if there is
// exactly one, and otherwise to the session.
type RequestTable struct {
	// Shared: the requests may be of different sessions. Then a progress token is replaced
	// by the request's id toward the server and restored on the way back, and
	// SendServerRequest fails unless exactly one request is pending. A connection of one
	// session passes tokens through: they are unique already, and may outlive the request
	// (MCP 2025-11-25, Tasks).
	Shared atomic.Bool
	// Stateless: the requests are of the stateless era.
	Stateless bool

	Last atomic.Int64 // number of the newest request

	mu        sync.Mutex
	byID      map[mcp.ID]*PendingRequest
	failure   error // if set, Add fails with it
	suspended error // set between Suspend and Resume
	orphans   int   // cancelled requests in byID
}

// maxFirstID bounds the id of a table's first request. It leaves 2^30 ids within the 31 bits
// that some servers have for a number, and is far below 2^53, up to which every JSON reader
// represents integers exactly (RFC 8259 section 6).
const maxFirstID = 1 << 30

// NewRequestTable returns a table whose ids begin at a random number. A server that mixes up
// its sessions then finds no equal id in another one; and a session that is resumed by
// another gateway process does not repeat ids (MCP, Base protocol, Requests: an id must
// not be used before).
func NewRequestTable(shared bool) *RequestTable {
	t := &RequestTable{byID: map[mcp.ID]*PendingRequest{}}
	t.Last.Store(rand.Int64N(maxFirstID))
	t.Shared.Store(shared)
	return t
}

// Add registers x and returns it as pending, with the request to send. The caller calls
// Remove when it no longer waits. The error is that of Fail, Refuse or Suspend, or an
// *mcp.Error for params that cannot be parsed.
func (t *RequestTable) Add(x *exchange.Exchange) (*PendingRequest, *mcp.Message, error) {
	token, logs, err := t.Hints(x)
	if err != nil {
		return nil, nil, err
	}
	f := &PendingRequest{
		ClientID: x.Request.ID, Method: x.Request.Method, Peer: wire.OrNoPeer(x.Peer), logs: logs,
		number: t.Last.Add(1), Done: make(chan struct{}),
	}
	f.ID = mcp.IntID(f.number)
	out := &mcp.Message{ID: f.ID, Method: x.Request.Method, Params: x.Request.Params}
	if token != nil {
		f.token = bytes.Clone(token)
		f.wire, _ = mcp.AsID(token)
		if t.Shared.Load() {
			f.wire = f.ID
			if out.Params, err = mcp.Replace(out.Params, f.ID.Raw(), "_meta", "progressToken"); err != nil {
				return nil, nil, err
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure != nil {
		return nil, nil, t.failure
	}
	if t.suspended != nil && (x.Client == nil || !x.Client.LivenessCheck) {
		return nil, nil, t.suspended
	}
	t.byID[f.ID] = f
	return f, out, nil
}

// Hints returns the properties by which messages are attributed to x: its progress token,
// nil for none, and whether it requests log messages. The error is an *mcp.Error.
func (t *RequestTable) Hints(x *exchange.Exchange) (token json.RawMessage, logs bool, err error) {
	if token, _, err = mcp.Lookup(x.Request.Params, "_meta", "progressToken"); err == nil && t.Stateless {
		_, logs, err = mcp.Lookup(x.Request.Params, "_meta", mcp.MetaLogLevel)
	}
	return token, logs, err
}

// Remove removes f from the table; a later response is dropped.
func (t *RequestTable) Remove(f *PendingRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[f.ID] == f {
		delete(t.byID, f.ID)
	}
}

// OnEnd registers do to be called when f ends, except by DeliverTo. If f has ended, it calls
// do at once. do must not block.
func (t *RequestTable) OnEnd(f *PendingRequest, do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[f.ID] != f {
		do()
		return
	}
	f.onEnd = do
}

// Refuse fails every later Add with err.
func (t *RequestTable) Refuse(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure == nil {
		t.failure = err
	}
}

// Fail ends every pending request with err, and fails every later Add with it.
func (t *RequestTable) Fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure == nil {
		t.failure = err
	}
	for _, f := range t.byID {
		f.Err = err
		t.end(f)
	}
}

// Suspend ends every pending request with err, and fails Add with it until Resume. Requests
// of a liveness check ([exchange.Client]) are still sent. It returns the requests that it
// ended: the server may still read them.
func (t *RequestTable) Suspend(err error) (ended []*PendingRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.suspended = err
	for _, f := range t.byID {
		if !f.orphan {
			ended = append(ended, f)
		}
		f.Err = err
		t.end(f)
	}
	return ended
}

// Resume reverses Suspend: Add accepts requests again.
func (t *RequestTable) Resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.suspended = nil
}

// Waiting reports whether a request is pending that was not cancelled.
func (t *RequestTable) Waiting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.byID {
		if !f.orphan {
			return true
		}
	}
	return false
}

// Settle ends f with err if f is still pending.
func (t *RequestTable) Settle(f *PendingRequest, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[f.ID] == f {
		f.Err = err
		t.end(f)
	}
}

// Has reports whether f is still pending.
func (t *RequestTable) Has(f *PendingRequest) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[f.ID] == f
}

// Notify passes the notification m to the exchange it belongs to and reports
// whether it was attributed; if not it belongs to the session.
func (t *RequestTable) Notify(m *mcp.Message) bool {
	f, progress := t.owner(m)
	if f == nil {
		// Progress of a request that has its response already: on a shared connection
		// the client's own token is no longer stored.
		return progress && t.Shared.Load()
	}
	if progress && t.Shared.Load() {
		params, err := mcp.Replace(m.Params, f.token, "progressToken")
		if err != nil {
			return true
		}
		m = &mcp.Message{Method: m.Method, Params: params}
	}
	f.Peer.Notify(m)
	return true
}

// owner returns the pending request of a notification, nil for none. progress reports
// whether m is attributed by its token.
func (t *RequestTable) owner(m *mcp.Message) (f *PendingRequest, progress bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.Method == mcp.NotificationProgress {
		raw, _, _ := mcp.Lookup(m.Params, "progressToken")
		token, _ := mcp.AsID(raw)
		return t.byToken(token), true
	}
	if IsSessionWide(m.Method) {
		return nil, false
	}
	return t.only(), false
}

// IsSessionWide reports whether a notification is about the session and never about a
// request: changes of lists and of subscribed resources (MCP 2025-11-25, Tools, List
// Changed Notification; Resources, Subscriptions). It belongs to the session also while
// one request is pending: that request's client may have closed its stream.
func IsSessionWide(method string) bool {
	return strings.HasSuffix(method, "/list_changed") || method == mcp.NotificationResourceUpdated
}

// byToken returns the newest pending request with the token: a client that uses one twice
// means its latest request.
func (t *RequestTable) byToken(token mcp.ID) *PendingRequest {
	if token.IsZero() {
		return nil
	}
	if t.Shared.Load() {
		if f := t.named(token); f != nil && f.token != nil {
			return f
		}
		return nil
	}
	var newest *PendingRequest
	for _, f := range t.byID {
		if f.wire == token && (newest == nil || f.number > newest.number) {
			newest = f
		}
	}
	return newest
}

// maxOrphans bounds the cancelled requests that a table keeps.
const maxOrphans = 256

// Orphan marks f, which was cancelled, and reports whether it was pending. On a shared
// connection it stays in the table until the server responds to it, for at most
// [wire.AbandonTimeout]: what the server still sends about it is not assigned to the sole
// other request. The caller has detached its peer.
func (t *RequestTable) Orphan(f *PendingRequest) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[f.ID] != f {
		return false
	}
	if !t.Shared.Load() || t.orphans >= maxOrphans {
		delete(t.byID, f.ID)
		return true
	}
	t.orphans++
	f.orphan = true
	time.AfterFunc(wire.AbandonTimeout, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.orphans--
		if t.byID[f.ID] == f {
			delete(t.byID, f.ID)
		}
	})
	return true
}

// only returns the sole pending request, nil if there are none or several. The caller holds
// mu.
func (t *RequestTable) only() *PendingRequest {
	if len(t.byID) != 1 {
		return nil
	}
	for _, f := range t.byID {
		return f
	}
	return nil
}

// SendServerRequest sends the server's request q to its client, within the sole pending
// request if there is exactly one. Otherwise it sends q to the session, which may be nil,
// and if that fails, within the newest pending request. On a shared connection it fails
// unless exactly one request is pending.
func (t *RequestTable) SendServerRequest(ctx context.Context, q *mcp.Message, session exchange.Peer) (*mcp.Message, error) {
	only, newest := t.candidates()
	if only != nil {
		return only.Peer.Ask(ctx, q)
	}
	if t.Shared.Load() {
		return nil, &mcp.Error{Code: mcp.CodeMethodNotFound,
			Message: "cannot tell which client " + q.Method + " is for: the server's session is shared and not exactly one request is in flight"}
	}
	answer, err := wire.OrNoPeer(session).Ask(ctx, q)
	if err == nil || ctx.Err() != nil {
		return answer, err
	}
	if newest == nil {
		return nil, err
	}
	return newest.Peer.Ask(ctx, q)
}

// SendToNewestCall sends the server's request q within the newest pending request that
// may have several rounds (MCP 2026-07-28, Multi Round-Trip Requests). All pending
// requests are of one client of the stateless era, which receives q in any of them.
func (t *RequestTable) SendToNewestCall(ctx context.Context, q *mcp.Message) (*mcp.Message, error) {
	t.mu.Lock()
	var newest *PendingRequest
	for _, f := range t.byID {
		if mcp.IsMultiRound(f.Method) && !f.orphan && (newest == nil || f.number > newest.number) {
			newest = f
		}
	}
	t.mu.Unlock()
	if newest == nil {
		return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "no request is pending in which the client can be sent " + wire.Printable(q.Method)}
	}
	return newest.Peer.Ask(ctx, q)
}

func (t *RequestTable) candidates() (only, newest *PendingRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.byID {
		if newest == nil || f.number > newest.number {
			newest = f
		}
	}
	return t.only(), newest
}
