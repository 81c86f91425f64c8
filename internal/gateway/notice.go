package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

var (
	errTooManyNotices = &mcp.Error{Code: mcp.CodeServerGone, Message: fmt.Sprintf("more than %d notifications of this session wait for the server to take them", maxNotices)}
	errUntaken        = &mcp.Error{Code: mcp.CodeServerGone, Message: "the server did not take the notification in time"}
)

// accept takes notifications and responses: 202, or an error for one that did
// not reach the server.
func (g *Gateway) accept(p *post, s *session) {
	for _, m := range p.messages {
		if err := g.take(p, s, m); err != nil {
			g.fail(p.w, s.untakenStatus(err), mcp.ID{}, err)
			return
		}
	}
	p.w.WriteHeader(http.StatusAccepted)
}

// take handles one notification or response of a client, of the POST p.
func (g *Gateway) take(p *post, s *session, m *mcp.Message) error {
	if m.Kind() == mcp.Response {
		s.answer(m, p.loan)
		return nil
	}
	conn, err := s.connection()
	if err != nil {
		return err
	}
	switch m.Method {
	case mcp.NotificationInitialized: // the backend said so when it opened
		return nil
	case mcp.NotificationCancelled:
		s.cancel(m)
		return nil
	}
	return s.tell(p.r.Context(), conn, m)
}

// tell passes a client's notification to the server. Its client may have left
// meanwhile, which takes nothing back; so a server that does not take it would keep it,
// and whatever else its clients say, for ever.
func (s *session) tell(ctx context.Context, conn exchange.Conn, m *mcp.Message) error {
	defer s.notices.Add(-1)
	if s.notices.Add(1) > maxNotices {
		return errTooManyNotices
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), s.pace.notice, errUntaken)
	defer cancel()
	err := conn.Notify(ctx, m)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
