package pod

import (
	"context"
	"log/slog"
	"sync"

	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// line is the connection to the guest in the server's container. It is made again when it was
// lost: the kubelet restarts containers one by one.
type line struct {
	socket string
	env    func() ([]string, error) // of the next process

	mu     sync.Mutex
	guest  *guest.Line // nil until the first process
	closed bool
}

// spawn starts one more server process.
func (l *line) spawn(ctx context.Context) (guest.Process, error) {
	env, err := l.env()
	if err != nil {
		return nil, err
	}
	g, err := l.current(ctx)
	if err != nil {
		return nil, err
	}
	return g.SpawnOwn(ctx, env)
}

func (l *line) current(ctx context.Context) (*guest.Line, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, guest.ErrLineLost
	}
	if l.guest != nil {
		select {
		case <-l.guest.Done():
		default:
			return l.guest, nil
		}
	}
	g, err := guest.ConnectSocket(ctx, l.socket)
	if err != nil {
		return nil, err
	}
	l.guest = g
	return g, nil
}

// close ends the processes.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.guest != nil {
		_ = l.guest.Close() // the guest ends what is left
	}
}

// strays logs what a server writes to its standard output that is no message.
type strays struct{ log *slog.Logger }

func (s strays) Write(b []byte) (int, error) {
	s.log.Warn("the server wrote to its standard output what is not a message", "text", plaintext.Excerpt(string(b), 500))
	return len(b), nil
}
