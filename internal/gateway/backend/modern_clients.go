package backend

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// modernClients serves clients of the stateless era at a server of the session
// era. Such a client has no session, so its requests are played out in sessions
// of ours: one for all clients that the server could not tell apart, and others
// for requests during which the server might ask (see [modernClients.do]).
type modernClients struct {
	sessions sessions
	log      *slog.Logger
	refused  func() // the server refused to begin a session
	opening  singleflight.Group
	sweeping sync.WaitGroup
	stop     chan struct{}

	mu     sync.Mutex
	closed bool
	pools  map[poolKey]*pool
}

// served is one session at the server.
type served struct {
	gateway.Conn
	hub          *hub
	capabilities json.RawMessage // the server's
	introduction []byte          // members that name the server in every result
	watched      *watched

	mu    sync.Mutex
	level string // the log level that the server was given
	// leveling is held while the server is given another.
	leveling chan struct{}

	// Guarded by modernClients.mu.
	users int
	since time.Time
	alone bool // for one request at a time
	spent bool // a request had no answer, so that the server may still be at work
}

// maxAsking is how many requests, during which a server may ask, share a session:
// neither their number nor clients that do not come back must use up what a server
// may ask at a time (maxQuestions).
const maxAsking = maxQuestions / 4

// How long a session that serves no request is kept, and how often that is
// looked at.
const (
	servedTime  = 2 * time.Minute
	servedSweep = 15 * time.Second
	// maxIdle bounds the sessions of one request at a time that wait for the next.
	maxIdle = 8
	// maxPools bounds the kinds of clients that have sessions: a client may say
	// something else of itself with every request.
	maxPools = 256
)

func newModernClients(s sessions, log *slog.Logger) *modernClients {
	c := &modernClients{sessions: s, log: log, stop: make(chan struct{}), pools: map[poolKey]*pool{}}
	return c
}

// Do plays out a request of the stateless era in a session.
func (c *modernClients) Do(ctx context.Context, x *gateway.Exchange) (*mcp.Message, error) {
	for again := true; ; again = false {
		m, err := c.do(ctx, x)
		var rpc *mcp.Error
		if !again || !errors.As(err, &rpc) || rpc.Code != mcp.CodeSessionNotFound {
			return m, err
		}
		// The server has forgotten the session. The client knows of none, so it is
		// ours to begin another; but a call that may have been worked on is never
		// made twice.
		if x.Request.Method == mcp.MethodToolsCall {
			return nil, gone("the server has lost its session, and may or may not have worked on the call; check, then make it again")
		}
	}
}

func (c *modernClients) do(ctx context.Context, x *gateway.Exchange) (*mcp.Message, error) {
	capabilities, err := mcp.Canonical(x.Client.Capabilities)
	if err != nil {
		return nil, err
	}
	key := poolKey{x.Client.Principal, string(capabilities)}
	s, err := c.take(ctx, key, x)
	if err != nil {
		return nil, err
	}
	defer c.put(key, s)
	switch x.Request.Method {
	case mcp.MethodDiscover:
		return s.discover(x.Request.ID)
	case mcp.MethodSubscriptionsListen:
		return s.hub.listen(ctx, s, x)
	}
	m, err := s.play(ctx, x)
	if err != nil {
		c.spend(s)
	}
	return m, err
}

// take returns a session for the request. Clients that the server cannot ask
// share one. Where the server might, and its questions come on the one stream
// that everything comes on, nobody could tell to which of several requests a
// question belongs: then there is one request at a time in a session.
func (c *modernClients) take(ctx context.Context, key poolKey, x *gateway.Exchange) (*served, error) {
	mayAsk := false
	if isMultiRound(x.Request.Method) {
		_, mayShare, err := sharingOf(x.Client)
		if err != nil {
			return nil, err
		}
		mayAsk = !mayShare
	}
	switch {
	case !mayAsk:
		return c.takeShared(ctx, key, x.Client, 0)
	case c.tellsApart():
		return c.takeShared(ctx, key, x.Client, maxAsking)
	}
	c.mu.Lock()
	if p := c.pools[key]; p != nil {
		for len(p.idle) > 0 {
			s := p.idle[len(p.idle)-1]
			p.idle = p.idle[:len(p.idle)-1]
			if s.alive() {
				s.users++
				c.mu.Unlock()
				return s, nil
			}
		}
	}
	c.mu.Unlock()
	s, err := c.open(ctx, key, x.Client)
	if err != nil {
		return nil, err
	}
	s.users++
	s.alone = true
	return s, nil
}

// tellsApart: questions of the server come on the stream of the request they
// belong to.
func (c *modernClients) tellsApart() bool {
	_, ok := c.sessions.(*streamable)
	return ok
}

func newServed(conn gateway.Conn, h *hub) (*served, error) {
	s := &served{Conn: conn, hub: h, since: time.Now(), watched: newWatched(), leveling: make(chan struct{}, 1)}
	var err error
	if s.capabilities, _, err = mcp.Lookup(conn.ServerInfo(), "capabilities"); err != nil {
		return nil, gone("the server's answer to initialize cannot be read: %v", err)
	}
	info, found, err := mcp.Lookup(conn.ServerInfo(), "serverInfo")
	if err != nil {
		return nil, gone("the server's answer to initialize cannot be read: %v", err)
	}
	if found {
		s.introduction = append([]byte(`"`+mcp.MetaServerInfo+`":`), info...)
	}
	return s, nil
}

// hasRoom: a shared session may serve another request.
// It is called with the mutex of modernClients held.
func (s *served) hasRoom(most int) bool {
	return s != nil && s.alive() && (most == 0 || s.users < most)
}

func (s *served) alive() bool {
	select {
	case <-s.Done():
		return false
	default:
		return true
	}
}
