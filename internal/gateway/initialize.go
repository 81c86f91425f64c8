package gateway

import (
	"context"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// initialize begins a session. A session id that the client still has from
// another one does not matter: it is what a client does that lost its session.
func (g *Gateway) initialize(p *post, m *mcp.Message) {
	if p.batch {
		g.fail(p.w, http.StatusBadRequest, mcp.ID{}, &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "initialize must not be part of a batch"})
		return
	}
	client, err := declare(m, principalOf(p.r))
	var meta mcp.Meta
	if err == nil {
		meta, err = mcp.ReadMeta(m.Params)
	}
	if err != nil {
		g.fail(p.w, http.StatusBadRequest, m.ID, err)
		return
	}
	if !g.calls.enter() {
		g.fail(p.w, http.StatusServiceUnavailable, m.ID, errStopping)
		return
	}
	defer g.calls.leave()

	s := g.newSession("")
	s.principal, s.shared = client.Principal, g.cfg.Endpoint.Stateless
	s.resumable, s.past.total = !g.cfg.Endpoint.Stateless, &g.sessions.past
	status := http.StatusOK
	x := &exchange.Exchange{Client: client, Request: m, Meta: meta, Peer: s}
	reply := p.reply(g, s)
	if g.cfg.Endpoint.Stateless {
		x.Open = func(ctx context.Context) (*mcp.Message, error) {
			common, err := g.anonymous(ctx, client.Version)
			if err != nil {
				status = g.openStatus(err)
				return nil, err
			}
			return mcp.NewResult(m.ID, common.conn.InitializeResult()), nil
		}
	} else {
		reply.announce = func() string { return g.name(s) }
		x.Open = func(ctx context.Context) (_ *mcp.Message, err error) {
			defer func() { status = g.openStatus(err) }()
			if err := g.open(ctx, s, client); err != nil {
				return nil, err
			}
			return mcp.NewResult(m.ID, s.conn.InitializeResult()), nil
		}
	}
	reply.start()
	// Nobody else knows the session yet, so its client's leaving ends it.
	response := g.outcome(p.r.Context(), x)
	switch {
	case g.cfg.Endpoint.Stateless:
	case response.Error != nil: // by the server, or by a stage after it
		g.release(s.end(errDeleted))
	default:
		g.name(s)
		if err := g.enroll(s); err != nil {
			status, response = g.openStatus(err), mcp.ErrorResponse(m.ID, mcp.CodeServerGone, err)
		}
	}
	if !reply.finish(status, []*mcp.Message{response}, false) && !g.cfg.Endpoint.Stateless {
		g.end(s, errClientGone) // its client does not know it, or not what it can do
	}
}

// enroll puts s into the table, or ends it.
func (g *Gateway) enroll(s *session) error {
	evicted, ok := g.sessions.add(s)
	for _, old := range evicted {
		g.release(old.end(errExpired))
	}
	if !ok {
		g.release(s.end(errStopping))
		return errFull
	}
	return nil
}
