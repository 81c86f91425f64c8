package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// maxNotices bounds the notifications of one session that are on their way to its
// server. Most servers take one at once.
const maxNotices = 100

var (
	errTooManyNotices = &mcp.Error{Code: mcp.CodeServerGone, Message: fmt.Sprintf("more than %d notifications of this session wait for the server to take them", maxNotices)}
	errUntaken        = &mcp.Error{Code: mcp.CodeServerGone, Message: "the server did not take the notification in time"}
)

// tell passes a client's notification to the server. Its client may have left
// meanwhile, which takes nothing back; so a server that does not take it would keep it,
// and whatever else its clients say, for ever.
func (s *session) tell(ctx context.Context, m *mcp.Message) error {
	conn, err := s.beginNotice()
	if err != nil {
		return err
	}
	defer s.finishNotice()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), s.pace.notice, errUntaken)
	defer cancel()
	err = conn.Notify(ctx, m)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// beginNotice returns the connection for a notification. Without an error the caller
// must finish it.
func (s *session) beginNotice() (Conn, error) {
	conn, err := s.connection()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notices >= maxNotices {
		return nil, errTooManyNotices
	}
	s.notices++
	return conn, nil
}

func (s *session) finishNotice() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices--
}
