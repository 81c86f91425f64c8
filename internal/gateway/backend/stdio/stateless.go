package stdio

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/correlate"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/subscribe"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// stateless sends requests to a stdio server in version 2026-07-28, which has no
// handshake: each request is self-contained. All exchanges of one principal share a
// process, which is started on demand and lingers. Principals do not share one, since a
// program may keep in memory what it received.
//
// On the one stream of a process, ids, progress tokens and subscription ids are the
// gateway's own. By them the messages of the server are attributed.
type stateless struct{ backend *Pool }

// statelessProcess is the part of a process that only the stateless era has.
type statelessProcess struct {
	*requests
	pacer *pacer
	// proven: a response has shown that the server is of this era.
	proven atomic.Bool
	// used: the process was sent more than server/discover, so its exit is logged. A server
	// of the session era may exit on server/discover.
	used atomic.Bool
	// dropped counts notifications that could not be attributed.
	dropped atomic.Int64
	listens *listens
}

func newStatelessProcess(r *requests, work *wire.Group, pacer *pacer) *statelessProcess {
	return &statelessProcess{requests: r, pacer: pacer, listens: newListens(r, work, pacer)}
}

// errNoServerRequests is the response to a request of the server.
var errNoServerRequests = &mcp.Error{Code: mcp.CodeMethodNotFound,
	Message: "a server does not send requests in MCP 2026-07-28; it answers with resultType input_required"}

// do sends the request of x and waits for the response. sent reports whether the server may
// have received it.
func (s *statelessProcess) do(ctx context.Context, x *exchange.Exchange) (answer *mcp.Message, sent bool, err error) {
	if x.Request.Method != mcp.MethodDiscover {
		s.used.Store(true)
	}
	if x.Request.Method == mcp.MethodSubscriptionsListen {
		filter, all, err := subscribe.RequestedFilter(x)
		if err != nil {
			return nil, false, err
		}
		if all { // otherwise it has members that cannot be combined
			return s.listens.do(ctx, x, filter)
		}
	}
	paced := *x
	paced.Peer = s.pacer.wrap(x.Peer, new(atomic.Bool))
	return s.roundTrip(ctx, &paced)
}

// notify passes a notification to the exchange to which it belongs.
func (s *statelessProcess) notify(m *mcp.Message) {
	pass := s.pending.NotifyStateless
	switch {
	case m.Method == mcp.NotificationCancelled:
		pass = s.pending.EndSubscription
	case subscribe.IsChange(m.Method) && !isMarked(m):
		pass = s.listens.notifyUnmarked
	}
	if !pass(m) {
		s.log.Debug("a notification of a shared process is dropped because it cannot be attributed",
			"method", wire.Printable(m.Method), "dropped", s.dropped.Add(1))
	}
}

// Do sends the request of x and returns the response. A request is sent once: another
// process is tried only when it reached none.
func (s stateless) Do(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	key := sharing{ClientKey: wire.ClientKey{Principal: x.Client.Principal}, stateless: true}
	for attempt := 1; ; attempt++ {
		p, err := s.backend.join(ctx, key, x.Client, func(p *process) { p.use.users++ })
		if err != nil {
			return nil, err
		}
		answer, sent, err := p.stateless.do(ctx, x)
		if !sent && p.over() && ctx.Err() == nil && attempt < joinAttempts && !errors.Is(p.why(), wire.ErrStopped) {
			s.backend.release(p)
			continue
		}
		if sent || ctx.Err() != nil {
			answer, err = s.outcome(ctx, p, x, answer, err)
		}
		s.backend.release(p)
		return answer, err
	}
}

// outcome returns the outcome of x. It detects a server that is not of the stateless era, and
// restores the client's subscription id.
func (s stateless) outcome(ctx context.Context, p *process, x *exchange.Exchange, answer *mcp.Message, err error) (*mcp.Message, error) {
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

// dismiss ends a process that failed server/discover: it cannot be used in this era, and
// occupies a slot that a process for the other era may need.
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
	case ctx.Err() == nil && itself && !p.reader.spoke.Load():
		return nil, &wire.OtherEraError{Err: err}
	}
	return nil, err
}

// discard ends p, unless it has other users, and returns when it has exited.
func (b *Pool) discard(p *process, why error) {
	b.mu.Lock()
	alone := p.use.users == 1 && p.shared.waiters == 0
	if alone {
		p.shared.withdraw()
	}
	b.mu.Unlock()
	if alone {
		p.end(why)
		<-p.stopped
	}
}

// Close does nothing: [Pool.Close] ends the processes.
func (s stateless) Close() error { return nil }
