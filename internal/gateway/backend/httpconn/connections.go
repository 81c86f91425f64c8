package httpconn

import (
	"context"
	"errors"
	"sync"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
)

// connections are the open ones of a backend.
type connections struct {
	mu     sync.Mutex
	closed bool
	open   map[exchange.Conn]struct{}
}

// track keeps c for as long as something may run for it, which is until life ends and
// may be later than that it is done, so that closeAll finds it. It is an error when
// the backend is closed.
func (s *connections) track(life context.Context, c exchange.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the backend is closed")
	}
	if s.open == nil {
		s.open = map[exchange.Conn]struct{}{}
	}
	s.open[c] = struct{}{}
	context.AfterFunc(life, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, c)
	})
	return nil
}

// begin keeps c when its handshake has succeeded, and closes it when not.
func (s *connections) begin(ctx context.Context, c exchange.Conn, session *serverSession, handshake func(context.Context) error) (exchange.Conn, error) {
	err := wire.WithinHandshakeTimeout(ctx, "the server at "+session.remote.String(), handshake)
	if err == nil {
		err = s.track(session.ctx, c)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// closeAll closes every connection, at the same time, and waits for them.
func (s *connections) closeAll() {
	s.mu.Lock()
	s.closed = true
	var all sync.WaitGroup
	for c := range s.open {
		all.Go(func() { _ = c.Close() })
	}
	s.mu.Unlock()
	all.Wait()
}
