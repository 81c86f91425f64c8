package stdio

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A process that was stopped (SIGSTOP, a paused container) keeps its pipes open and never
// responds. The pool checks each process by itself, since the owner's ping reaches only
// one of them. A process is unresponsive when requests are pending, it has sent nothing
// for Config.CheckAfter, it does not answer a ping either, and the guest reports that it
// cannot run. Its pending requests fail, and later ones fail at once, until it sends a
// message again. Its sessions continue. A process that runs but does not answer the ping is
// busy with a request: many servers run a tool on the thread that reads.

// A request to a stopped process fails within a minute: after defaultCheckAfter, the same
// time again for the ping, and guestTimeout.
const (
	defaultCheckAfter = 20 * time.Second
	guestTimeout      = 10 * time.Second
)

// watch checks the process until it ends.
func (p *process) watch() {
	after := p.backend.cfg.CheckAfter
	tick := time.NewTicker(after / 2)
	defer tick.Stop()
	for {
		select {
		case <-p.closing:
			return
		case <-tick.C:
			if p.overdue(after) && !p.responds(after) && !p.over() && p.frozen() {
				p.suspend()
			}
		}
	}
}

// overdue reports whether a request is pending and the server has sent nothing for that
// long. A server that waits for its client's response is not overdue: it may read nothing
// else before that response.
func (p *process) overdue(after time.Duration) bool {
	if p.version.Load() == nil && !p.isStateless() { // the handshake has its own timeout
		return false
	}
	return time.Since(p.lastMessage()) >= after && (p.suspended.Load() || p.pending.Waiting()) && !p.serverRequests.Pending()
}

// responds sends a ping (MCP, Ping), or in the stateless era, which has none,
// server/discover (MCP 2026-07-28), and reports whether the server sent any message in
// time.
func (p *process) responds(within time.Duration) bool {
	since := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	client := *wire.OwnClient()
	client.LivenessCheck = true
	x := &exchange.Exchange{Client: &client, Request: &mcp.Message{ID: mcp.IntID(0), Method: mcp.MethodPing}}
	if p.isStateless() {
		x.Request = &mcp.Message{ID: mcp.IntID(0), Method: mcp.MethodDiscover,
			Params: json.RawMessage(`{"_meta":{` + string(wire.NewClientMeta(&client)) + `}}`)}
	}
	_, _, err := p.play(ctx, x)
	return err == nil || p.lastMessage().After(since)
}

// frozen returns the guest's report on whether the process cannot run.
func (p *process) frozen() bool {
	ctx, cancel := context.WithTimeout(context.Background(), guestTimeout)
	defer cancel()
	return p.server.Frozen(ctx)
}

// suspend fails the pending requests, and later ones until the server sends a message.
func (p *process) suspend() {
	why := wire.ServerGone("the server does not respond: it is stopped or paused and has sent nothing for %s; what was requested may or may not have been done",
		time.Since(p.lastMessage()).Round(time.Second))
	if !p.suspended.Swap(true) {
		p.log.Warn("a server process does not respond; requests fail until it does", "reason", why)
	}
	if p.shared != nil { // other sessions get another process
		p.backend.mu.Lock()
		p.backend.withdraw(p.shared)
		p.backend.mu.Unlock()
	}
	ended := p.pending.Suspend(why)
	if !p.suspended.Load() { // a message arrived meanwhile
		p.pending.Resume()
	}
	p.farewells.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wire.FarewellTimeout)
		defer cancel()
		for _, f := range ended {
			if p.send(ctx, f.Cancelled()) != nil {
				return
			}
		}
	})
}

// received records that the server sent a message, and ends a suspension.
func (p *process) received() {
	p.last.Store(time.Now().UnixNano())
	if p.suspended.Swap(false) {
		p.pending.Resume()
		p.log.Info("a server process responds again")
	}
}

func (p *process) lastMessage() time.Time { return time.Unix(0, p.last.Load()) }
