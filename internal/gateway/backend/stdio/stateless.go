package stdio

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/correlate"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// stateless is the way to a stdio server in version 2026-07-28, in which a
// process is not a conversation: nothing begins it, and a request says all there
// is to know. All exchanges of one principal share a process, which is started
// when one is needed and lingers. Principals share none: whatever the protocol
// says, a program may keep what it was told.
//
// On the one line to a process, ids, progress tokens and subscription ids are
// ours, and what a message of the server belongs to is told by them alone.
type stateless struct{ backend *Pool }

// statelessState is what there is to know about a process of the stateless era.
type statelessState struct {
	// proven: it has answered as a server of this era does.
	proven atomic.Bool
	// used: it was asked for more than which era it speaks, so that its end is news. A
	// server of the session era may well end at that first question.
	used atomic.Bool
	// dropped counts notifications that were nobody's.
	dropped atomic.Int64
	// subscriptions are those of all its clients.
	subscriptions *subscriptions
}

// isStateless: p is used in the stateless era.
func (p *process) isStateless() bool { return p.shared != nil && p.shared.key.stateless }

// errNoQuestions answers a request of the server.
var errNoQuestions = &mcp.Error{Code: mcp.CodeMethodNotFound,
	Message: "a server does not send requests in MCP 2026-07-28; it answers with resultType input_required"}

// Do plays out one exchange. A request is sent once: only when it has reached no
// process is another tried.
func (s stateless) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	key := sharing{principal: x.Client.Principal, stateless: true}
	for attempt := 1; ; attempt++ {
		p, err := s.backend.join(ctx, key, x.Client, func(p *process) { p.users++ })
		if err != nil {
			return nil, err
		}
		if x.Request.Method != mcp.MethodDiscover {
			p.stateless.used.Store(true)
		}
		play := p.play
		if x.Request.Method == mcp.MethodSubscriptionsListen {
			play = p.listen
		}
		answer, sent, err := play(ctx, x)
		if !sent && p.over() && ctx.Err() == nil && attempt < joinAttempts && !errors.Is(p.why, wire.ErrStopped) {
			s.backend.release(p)
			continue
		}
		if sent || ctx.Err() != nil {
			answer, err = s.settle(ctx, p, x, answer, err)
		}
		s.backend.release(p)
		return answer, err
	}
}

// listen plays out a listen request, with those of others if that can be.
func (p *process) listen(ctx context.Context, x *exchange.Exchange) (answer *mcp.Message, sent bool, err error) {
	wants, all, err := wire.RequestedFilter(x)
	if err != nil {
		return nil, false, err
	}
	if !all { // there is something in it that we cannot put together with another
		return p.play(ctx, x)
	}
	return p.stateless.subscriptions.play(ctx, x, wants)
}

// settle looks at what came of x for signs of the server's era.
func (s stateless) settle(ctx context.Context, p *process, x *exchange.Exchange, answer *mcp.Message, err error) (*mcp.Message, error) {
	if x.Request.Method == mcp.MethodDiscover && !p.stateless.proven.Load() && !wire.ProvesStateless(answer) {
		return s.dismiss(ctx, p, answer, err)
	}
	if err != nil {
		return nil, err
	}
	if wire.IsOtherEra(answer.Error) {
		return nil, &wire.OtherEraError{Err: answer.Error}
	}
	if answer.Error == nil {
		p.stateless.proven.Store(true)
	}
	if x.Request.Method == mcp.MethodSubscriptionsListen && answer.Error == nil {
		answer.Result, err = correlate.RestoreSubscription(answer.Result, x.Request.ID)
		if err != nil {
			return nil, wire.ServerGone("the server's answer to %s cannot be understood: %v", x.Request.Method, err)
		}
	}
	return answer, nil
}

// dismiss deals with a process whose first words in this era it did not
// understand: nothing else is to be expected of it, and it may stand in the way
// of one for the other era, so it is ended at once.
func (s stateless) dismiss(ctx context.Context, p *process, answer *mcp.Message, err error) (*mcp.Message, error) {
	itself := p.over() && !errors.Is(err, wire.ErrStopped)
	s.backend.discard(p, wire.ServerGone("the server's process was ended because it does not speak MCP 2026-07-28"))
	switch {
	case err == nil && answer.Error != nil:
		return nil, &wire.OtherEraError{Err: answer.Error}
	case err == nil:
		return nil, &wire.OtherEraError{Err: wire.ServerGone("the server answered server/discover with something else than the versions of the stateless era it speaks")}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, &wire.OtherEraError{Err: wire.ServerGone("the server did not answer server/discover in time")}
	case ctx.Err() == nil && itself && !p.spoke.Load():
		return nil, &wire.OtherEraError{Err: err}
	}
	return nil, err
}

// discard ends p, unless others wait for it, and returns when it has ended.
func (b *Pool) discard(p *process, why error) {
	b.mu.Lock()
	alone := p.users == 1 && p.shared.waiters == 0
	if alone {
		b.withdraw(p.shared)
	}
	b.mu.Unlock()
	if alone {
		p.end(why)
		<-p.stopped
	}
}

// Close does nothing: the processes are the backend's.
func (s stateless) Close() error { return nil }

// notifyStateless passes a notification of a process of the stateless era to the
// exchange that it says it belongs to.
func (p *process) notifyStateless(m *mcp.Message) {
	pass := p.pending.NotifyStateless
	switch {
	case m.Method == mcp.NotificationCancelled:
		pass = p.pending.EndSubscription
	case wire.IsChange(m.Method) && !isMarked(m):
		pass = p.stateless.subscriptions.unmarked
	}
	if !pass(m) {
		p.log.Debug("a notification of a shared process is dropped: whose it is cannot be told",
			"method", wire.Printable(m.Method), "dropped", p.stateless.dropped.Add(1))
	}
}
