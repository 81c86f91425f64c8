package correlate

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// RequestTable holds the pending requests of a connection by the id used toward the
// server, and assigns responses by it. Its attribution assigns the server's other messages:
// a progress notification by its token, any other to the sole pending request if there is
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

	attribution

	mu        sync.Mutex
	pending   pendingSet
	failure   error // if set, Add fails with it
	suspended error // set between Suspend and Resume
	orphans   int   // cancelled requests in pending
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
	t := &RequestTable{pending: pendingSet{}}
	t.attribution.table = t
	t.Last.Store(rand.Int64N(maxFirstID))
	t.Shared.Store(shared)
	return t
}

// Add registers x and returns it as pending, with the request to send. peer receives what
// the server sends for it. The caller calls Remove when it no longer waits. The error is
// that of Fail, Refuse or Suspend, or an *mcp.Error for params that cannot be parsed.
func (t *RequestTable) Add(x *exchange.Exchange, peer exchange.Peer) (*PendingRequest, *mcp.Message, error) {
	f := &PendingRequest{
		ClientID: x.Request.ID, Method: x.Request.Method, Peer: wire.OrNoPeer(peer), logs: t.Stateless && x.Meta.LogLevel != "",
		number: t.Last.Add(1), Done: make(chan struct{}),
	}
	f.ID = mcp.IntID(f.number)
	out := &mcp.Message{ID: f.ID, Method: x.Request.Method, Params: x.Request.Params}
	if token := x.Meta.ProgressToken; token != nil {
		f.token = bytes.Clone(token)
		f.wire, _ = mcp.AsID(token)
		if t.Shared.Load() {
			f.wire = f.ID
			var err error
			if out.Params, err = mcp.Replace(out.Params, f.ID.Raw(), "_meta", "progressToken"); err != nil {
				return nil, nil, err
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.rejects(x); err != nil {
		return nil, nil, err
	}
	t.pending[f.ID] = f
	return f, out, nil
}

// Remove removes f from the table; a later response is dropped.
func (t *RequestTable) Remove(f *PendingRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending[f.ID] == f {
		delete(t.pending, f.ID)
	}
}

// OnEnd registers do to be called when f ends, except by DeliverTo. If f has ended, it calls
// do at once. do must not block.
func (t *RequestTable) OnEnd(f *PendingRequest, do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending[f.ID] != f {
		do()
		return
	}
	f.onEnd = do
}

// Settle ends f with err if f is still pending.
func (t *RequestTable) Settle(f *PendingRequest, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending[f.ID] == f {
		t.pending.fail(f, err)
	}
}

// Has reports whether f is still pending.
func (t *RequestTable) Has(f *PendingRequest) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pending[f.ID] == f
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
	if t.pending[f.ID] != f {
		return false
	}
	if !t.Shared.Load() || t.orphans >= maxOrphans {
		delete(t.pending, f.ID)
		return true
	}
	t.orphans++
	f.orphan = true
	time.AfterFunc(wire.AbandonTimeout, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.orphans--
		if t.pending[f.ID] == f {
			delete(t.pending, f.ID)
		}
	})
	return true
}
