package stdio

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A request to a stopped process fails within a minute: after defaultCheckAfter, the same
// time again for the ping, and guestTimeout.
const (
	defaultCheckAfter = 20 * time.Second
	guestTimeout      = 10 * time.Second
)

// liveness checks whether a process responds. A process that was stopped (SIGSTOP, a paused
// container) keeps its pipes open and never responds. The pool checks each process by
// itself, since the owner's ping reaches only one of them.
//
// A process is unresponsive when requests are pending, it has sent nothing for
// Config.CheckAfter, it does not answer a ping either, and the guest reports that it cannot
// run. Its pending requests fail, and later ones fail at once, until it sends a message
// again. Its sessions continue. A process that runs but does not answer the ping is busy with
// a request: many servers run a tool on the thread that reads.
type liveness struct {
	*requests
	after time.Duration // Config.CheckAfter
	ping  *mcp.Message
	// blocked reports whether the server is not expected to send anything although requests
	// are pending: during the handshake, which has a timeout of its own, and while the
	// server waits for its client's response, before which it may read nothing else.
	blocked func() bool
	// isFrozen returns the guest's report on whether the process cannot run.
	isFrozen func(context.Context) bool
	// onSuspend is called when the process is found to be unresponsive, before its
	// requests fail.
	onSuspend func()

	last      atomic.Int64 // when the server sent its last message, or was started; Unix nanoseconds
	suspended atomic.Bool
}

// pingRequest returns a ping (MCP, Ping), or in the stateless era, which has none,
// server/discover (MCP 2026-07-28).
func pingRequest(stateless bool) *mcp.Message {
	if !stateless {
		return &mcp.Message{ID: mcp.IntID(0), Method: mcp.MethodPing}
	}
	return &mcp.Message{ID: mcp.IntID(0), Method: mcp.MethodDiscover,
		Params: json.RawMessage(`{"_meta":{` + string(wire.NewClientMeta(wire.OwnClient())) + `}}`)}
}

// run checks the process until it ends.
func (l *liveness) run() {
	tick := time.NewTicker(l.after / 2)
	defer tick.Stop()
	for {
		select {
		case <-l.lifetime.Done():
			return
		case <-tick.C:
			if l.overdue() && !l.responds() && l.lifetime.Err() == nil && l.frozen() {
				l.fail()
			}
		}
	}
}

// overdue reports whether a request is pending and the server has sent nothing for too long.
func (l *liveness) overdue() bool {
	return time.Since(l.lastMessage()) >= l.after && (l.suspended.Load() || l.pending.Waiting()) && !l.blocked()
}

// responds sends a ping and reports whether the server sent any message in time.
func (l *liveness) responds() bool {
	since := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), l.after)
	defer cancel()
	client := *wire.OwnClient()
	client.LivenessCheck = true
	_, _, err := l.roundTrip(ctx, &exchange.Exchange{Client: &client, Request: l.ping})
	return err == nil || l.lastMessage().After(since)
}

func (l *liveness) frozen() bool {
	ctx, cancel := context.WithTimeout(context.Background(), guestTimeout)
	defer cancel()
	return l.isFrozen(ctx)
}

// fail fails the pending requests, and later ones until the server sends a message.
func (l *liveness) fail() {
	why := wire.ServerGone("the server does not respond: it is stopped or paused and has sent nothing for %s; what was requested may or may not have been done",
		time.Since(l.lastMessage()).Round(time.Second))
	if !l.suspended.Swap(true) {
		l.log.Warn("a server process does not respond; requests fail until it does", "reason", why)
	}
	l.onSuspend()
	l.suspend(why)
	if !l.suspended.Load() { // a message arrived meanwhile
		l.resume()
	}
}

// received records that the server sent a message, and ends a suspension.
func (l *liveness) received() {
	l.last.Store(time.Now().UnixNano())
	if l.suspended.Swap(false) {
		l.resume()
		l.log.Info("a server process responds again")
	}
}

func (l *liveness) lastMessage() time.Time { return time.Unix(0, l.last.Load()) }
