package httpconn

import (
	"context"
	"errors"
	"sync"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
)

// connections holds the open connections of a backend.
type connections struct {
	mu     sync.Mutex
	closed bool
	open   map[exchange.Conn]struct{}
}

// track registers c until life ends, so that closeAll closes it. Goroutines of c may run
// until then, also after the session has ended. track fails when the backend is closed.
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

// begin performs the handshake of c. It registers c on success and closes c on failure.
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

// closeAll closes all connections concurrently and waits for them.
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
