package backend

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/translate"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Clients that can be asked have sessions for one request at a time, which wait for the
// next a while. That must not keep more people than there are pools from being served.
func TestKindsOfClientsThatAreDoneMakeRoom(t *testing.T) {
	t.Parallel()
	s := &sessionServer{}
	b := atSessions(t, s)
	for n := range 256 + 10 {
		x := statelessRequest(mcp.MethodPromptsGet, `"name":"a"`, `{"elicitation":{}}`, nil)
		x.Client.Principal = fmt.Sprint("user ", n)
		if _, err := b.Do(backendtest.TestContext(t), x); err != nil {
			t.Fatalf("user %d: %v", n, err)
		}
	}
	// Whose sessions made room was served longest ago.
	deadline := time.Now().Add(backendtest.Patience)
	for n, c := range s.sessions() {
		for n < 10 && !isClosed(c.done) {
			if time.Now().After(deadline) {
				t.Fatalf("the session of user %d is still open", n)
			}
			time.Sleep(time.Millisecond)
		}
		if n >= 10 && isClosed(c.done) {
			t.Errorf("the session of user %d was closed", n)
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// slowToClose is a session server that takes its time to end each session.
type slowToClose struct {
	*sessionServer
	mu      sync.Mutex
	closing int
	alone   bool          // one waited for the others in vain
	all     chan struct{} // closed when so many are being closed
	want    int
}

func (s *slowToClose) Open(ctx context.Context, client *exchange.Client, peer exchange.Peer) (exchange.Conn, error) {
	conn, err := s.sessionServer.Open(ctx, client, peer)
	return &closesSlowly{conn, s}, err
}

type closesSlowly struct {
	exchange.Conn
	of *slowToClose
}

func (c *closesSlowly) Close() error {
	c.of.mu.Lock()
	if c.of.closing++; c.of.closing == c.of.want {
		close(c.of.all)
	}
	c.of.mu.Unlock()
	select {
	case <-c.of.all:
	case <-time.After(15 * time.Second):
		c.of.mu.Lock()
		c.of.alone = true
		c.of.mu.Unlock()
	}
	return c.Conn.Close()
}

// A server that does not answer when a session is ended holds up the end of the gateway
// once, and not once for every session.
func TestSessionsAreEndedAtTheSameTime(t *testing.T) {
	t.Parallel()
	const sessions = 8
	entered, hold := make(chan struct{}, sessions), make(chan struct{})
	s := &slowToClose{want: sessions, all: make(chan struct{}), sessionServer: &sessionServer{capabilities: `{}`}}
	s.do = func(context.Context, *atOne, *exchange.Exchange) (*mcp.Message, error) {
		entered <- struct{}{}
		<-hold
		return nil, nil
	}
	c := translate.NewUp(s.Open, backendtest.TestLog())
	var calls sync.WaitGroup
	for range sessions {
		calls.Go(func() {
			x := statelessRequest(mcp.MethodToolsCall, `"name":"a"`, `{"elicitation":{}}`, nil)
			if _, err := c.Do(backendtest.TestContext(t), x); err != nil {
				t.Error(err)
			}
		})
	}
	for range sessions {
		<-entered
	}
	close(hold)
	calls.Wait()
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alone || s.closing != sessions {
		t.Errorf("%d sessions are ended, one after the other: %v", s.closing, s.alone)
	}
}
