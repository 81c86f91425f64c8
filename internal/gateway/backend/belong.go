package backend

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
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// flight is one request that was sent and waits for its answer. It may stay for
// a while when nobody waits any more, so it keeps nothing of the request's params.
type flight struct {
	id     mcp.ID // toward the server
	own    mcp.ID // the client's
	method string
	peer   exchange.Peer   // the exchange's, never nil
	token  json.RawMessage // the client's progress token, nil for none
	number int64
	wire   mcp.ID // the token toward the server, as an ID so that it compares
	logs   bool   // stateless era: it asks for log messages
	done   chan struct{}
	answer *mcp.Message // set with err before done is closed
	err    error
	// onEnd is called when f has ended, unless it was by deliverTo. It does not wait.
	onEnd func()
	read  bool // the server has shown that it could read it
}

// wait returns the server's answer with the client's id, or why there is none.
// When ctx ends first the error is its own, and the caller tells the server.
func (f *flight) wait(ctx context.Context) (*mcp.Message, error) {
	select {
	case <-f.done:
		return f.answer, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// cancelled is the notification that tells the server to stop working on f
// (MCP, Cancellation).
func (f *flight) cancelled() *mcp.Message {
	return mcp.Cancelled(f.id, "the client cancelled the request")
}

// inflight is the table of a connection's flights, by the id used toward the
// server. It answers the question that a single stream leaves open: whose is a
// message of the server? An answer has an id and a progress notification its
// token. Anything else belongs to the exchange in flight if there is exactly
// one, and otherwise to the session.
type inflight struct {
	// shared says that the flights may be of different sessions. Then progress
	// tokens are replaced by the flight's id toward the server and restored on
	// the way back, and nothing is ever given to somebody on a guess. A
	// connection of one session passes tokens through: they are unique already,
	// and may outlive the request (MCP 2025-11-25, Tasks).
	shared atomic.Bool
	// modern says that they are of the stateless era.
	modern bool

	last atomic.Int64 // flight's number

	mu      sync.Mutex
	byID    map[mcp.ID]*flight
	failure error // nothing can be sent any more
	// doubt is until when the table is not all that the server may speak about,
	// and logDoubt until when it may log about something else.
	doubt, logDoubt time.Time
	// unasked: the server has logged when no request asked it to.
	unasked bool

	lost lostAnswers
	// told is the number that the first request after the last notification to the
	// server had or will have; 0 when one of those was answered since.
	told int64
}

// maxFirstID bounds the id of a table's first request. It leaves as many again
// before the end of the 31 bits that some servers have for a number, and is far from
// the 2^53 that every JSON reader takes exactly (RFC 8259 section 6).
const maxFirstID = 1 << 30

// newInflight makes a table whose ids begin anywhere. A server that mixes up its
// sessions does not find the same id in another, where its answer would be somebody
// else's; and one in which a session goes on that another process of ours began has
// not seen them (MCP, Base protocol, Requests: an id must not be used before).
func newInflight(shared bool) *inflight {
	t := &inflight{byID: map[mcp.ID]*flight{}}
	t.last.Store(rand.Int64N(maxFirstID))
	t.shared.Store(shared)
	return t
}

// add enters x and returns its flight and the request to send. The caller
// removes the flight when it no longer waits. The error is that of fail, or an
// *mcp.Error for params that cannot be understood.
func (t *inflight) add(x *exchange.Exchange) (*flight, *mcp.Message, error) {
	token, logs, err := t.marks(x)
	if err != nil {
		return nil, nil, err
	}
	f := &flight{
		own: x.Request.ID, method: x.Request.Method, peer: orNoPeer(x.Peer), logs: logs,
		number: t.last.Add(1), done: make(chan struct{}),
	}
	f.id = mcp.IntID(f.number)
	out := &mcp.Message{ID: f.id, Method: x.Request.Method, Params: x.Request.Params}
	if token != nil {
		f.token = bytes.Clone(token)
		f.wire, _ = mcp.AsID(token)
		if t.shared.Load() {
			f.wire = f.id
			if out.Params, err = mcp.Replace(out.Params, f.id.Raw(), "_meta", "progressToken"); err != nil {
				return nil, nil, err
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure != nil {
		return nil, nil, t.failure
	}
	t.byID[f.id] = f
	return f, out, nil
}

// marks reads what x says of itself that decides here: its progress token, nil for
// none, and whether it asks for log messages. The error is an *mcp.Error.
func (t *inflight) marks(x *exchange.Exchange) (token json.RawMessage, logs bool, err error) {
	if token, _, err = mcp.Lookup(x.Request.Params, "_meta", "progressToken"); err == nil && t.modern {
		_, logs, err = mcp.Lookup(x.Request.Params, "_meta", mcp.MetaLogLevel)
	}
	return token, logs, err
}

// remove takes f out of the table; an answer that comes later is nobody's.
func (t *inflight) remove(f *flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[f.id] == f {
		delete(t.byID, f.id)
		t.unanswered(f)
	}
}

// watch has do called when f ends, at once if it has. It does not wait.
func (t *inflight) watch(f *flight, do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[f.id] != f {
		do()
		return
	}
	f.onEnd = do
}

// refuse ends every later add with err.
func (t *inflight) refuse(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure == nil {
		t.failure = err
	}
}

// fail ends every flight with err, and every later add.
func (t *inflight) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure == nil {
		t.failure = err
	}
	for _, f := range t.byID {
		f.err = err
		t.end(f)
	}
}

// settle ends f with err, unless it has its answer already.
func (t *inflight) settle(f *flight, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[f.id] == f {
		f.err = err
		t.end(f)
		t.unanswered(f)
	}
}

// has reports whether f still waits for its answer.
func (t *inflight) has(f *flight) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[f.id] == f
}

// notify passes the notification m to the exchange it belongs to and reports
// whether that is settled; if not it is the session's.
func (t *inflight) notify(m *mcp.Message) bool {
	f, progress := t.owner(m)
	if f == nil {
		// Progress of a request that is answered already, on a shared line: the
		// client's own token is not known any more, and the number is no one's.
		return progress && t.shared.Load()
	}
	if progress && t.shared.Load() {
		params, err := mcp.Replace(m.Params, f.token, "progressToken")
		if err != nil {
			return true
		}
		m = &mcp.Message{Method: m.Method, Params: params}
	}
	f.peer.Notify(m)
	return true
}

// owner finds the flight of a notification. progress says that m is one whose
// token decides.
func (t *inflight) owner(m *mcp.Message) (f *flight, progress bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.Method == mcp.NotificationProgress {
		raw, _, _ := mcp.Lookup(m.Params, "progressToken")
		token, _ := mcp.AsID(raw)
		return t.byToken(token), true
	}
	if t.shared.Load() && isSessionWide(m.Method) {
		return nil, false
	}
	return t.only(), false
}

// isSessionWide reports whether a notification is about the server as a whole.
func isSessionWide(method string) bool {
	return strings.HasSuffix(method, "/list_changed") || method == mcp.NotificationResourceUpdated
}

// byToken is the newest flight with the token: a client that uses one twice
// means its latest request.
func (t *inflight) byToken(token mcp.ID) *flight {
	if token.IsZero() {
		return nil
	}
	if t.shared.Load() {
		if f := t.named(token); f != nil && f.token != nil {
			return f
		}
		return nil
	}
	var newest *flight
	for _, f := range t.byID {
		if f.wire == token && (newest == nil || f.number > newest.number) {
			newest = f
		}
	}
	return newest
}

// forsake takes f, about which the server may still speak, out of the table, and
// reports whether it was in it. Until then nobody is the only one that a message can
// be for.
func (t *inflight) forsake(f *flight, until time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[f.id] != f {
		return false
	}
	delete(t.byID, f.id)
	defer t.unanswered(f)
	if f.method == mcp.MethodSubscriptionsListen {
		return true // its messages say what they belong to
	}
	t.doubt = until
	if f.logs {
		t.logDoubt = until
	}
	return true
}

// only is the one flight there is, if nobody else can be meant. The caller holds
// mu.
func (t *inflight) only() *flight {
	if len(t.byID) != 1 || time.Now().Before(t.doubt) {
		return nil
	}
	for _, f := range t.byID {
		return f
	}
	return nil
}

// ask puts the server's request q to the client it is meant for: to the
// exchange in flight if there is one, with several to the session, and if that
// cannot be asked to the newest exchange. session may be nil. On a shared line
// nobody is asked on a guess.
func (t *inflight) ask(ctx context.Context, q *mcp.Message, session exchange.Peer) (*mcp.Message, error) {
	only, newest := t.candidates()
	if only != nil {
		return only.peer.Ask(ctx, q)
	}
	if t.shared.Load() {
		return nil, &mcp.Error{Code: mcp.CodeMethodNotFound,
			Message: "cannot tell which client " + q.Method + " is for: the server's session is shared and not exactly one request is in flight"}
	}
	answer, err := orNoPeer(session).Ask(ctx, q)
	if err == nil || ctx.Err() != nil {
		return answer, err
	}
	if newest == nil {
		return nil, err
	}
	return newest.peer.Ask(ctx, q)
}

func (t *inflight) candidates() (only, newest *flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.byID {
		if newest == nil || f.number > newest.number {
			newest = f
		}
	}
	return t.only(), newest
}
