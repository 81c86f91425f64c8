package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// find returns the principal's session with the id, nil when there is none or
// its server is gone.
func (g *Gateway) find(id, principal string) *session {
	s := g.sessions.get(id)
	if s == nil || s.principal != principal {
		return nil
	}
	if !s.alive() {
		g.end(s, errServerLost)
		return nil
	}
	return s
}

// end takes s out of the table and ends it. Its connection is closed behind the
// caller's back, since a server may take its time.
func (g *Gateway) end(s *session, cause error) {
	g.sessions.remove(s)
	g.release(s.end(cause))
}

// settle waits, not for long, until what the server of s has answered last is on its
// way: a client that sees its stream end may give up everything else.
func (g *Gateway) settle(s *session) {
	ctx, cancel := context.WithTimeout(g.ctx, g.pace.settle)
	defer cancel()
	s.answering.wait(ctx)
}

// leave ends s with the gateway. A session that the next gateway can continue is
// left as it is at the server.
func (g *Gateway) leave(s *session) {
	conn := s.end(errStopping)
	if conn != nil && g.cfg.Key != nil && s.id != "" {
		if t, ok := g.redeem(s.id, s.principal); ok && t.revivable {
			_ = conn.Leave() // the backend's Close would say so too
		}
	}
}

// name gives s its id, which must not change any more, and returns it. What the
// id can hold depends on how far the opening has come.
func (g *Gateway) name(s *session) string {
	s.mu.Lock()
	id, client, conn := s.id, s.client, s.conn
	s.mu.Unlock()
	if id != "" {
		return id
	}
	// The connection may speak to the session while it is asked for its handle.
	serial := newSerial()
	id = g.issue(serial, s.principal, client, conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == "" {
		s.id, s.serial = id, serial
	}
	return s.id
}

// release closes conn, if there is one.
func (g *Gateway) release(conn exchange.Conn) {
	if conn == nil {
		return
	}
	g.closers.enter()
	go func() {
		defer g.closers.leave()
		if err := conn.Close(); err != nil {
			g.log.Debug("close a connection to the server", "error", err)
		}
	}()
}

// sweeper ends sessions nobody has used for the TTL, and those whose server is
// gone: one look now and then instead of a timer for each.
func (g *Gateway) sweeper() {
	every := min(max(g.cfg.Endpoint.SessionTTL/8, 100*time.Millisecond), 30*time.Second)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case now := <-tick.C:
			g.expire(now)
		}
	}
}

func (g *Gateway) expire(now time.Time) {
	before := now.Add(-g.cfg.Endpoint.SessionTTL)
	for _, s := range append(g.sessions.expire(before), g.shared.expire(before)...) {
		g.release(s.end(errExpired))
	}
	g.sessions.trim(now.Add(-pastTime))
}

// declare reads what a client says of itself in initialize (MCP, Lifecycle,
// Initialization); principal says it. A version that we do not know becomes our latest.
func declare(m *mcp.Message, principal string) (*exchange.Client, error) {
	version, found, err := mcp.LookupString(m.Params, "protocolVersion")
	if err == nil && !found {
		err = &mcp.Error{Code: mcp.CodeInvalidParams, Message: "initialize needs a protocolVersion"}
	}
	if err != nil {
		return nil, err
	}
	c := &exchange.Client{Principal: principal, Version: mcp.Version(version)}
	if !c.Version.IsSession() {
		c.Version = mcp.LatestSession
	}
	if c.Capabilities, err = declaration(m.Params, "capabilities"); err != nil {
		return nil, err
	}
	if c.Info, err = declaration(m.Params, "clientInfo"); err != nil {
		return nil, err
	}
	return c, nil
}

// declaration returns a copy: the session must not hold on to the whole body.
func declaration(params json.RawMessage, key string) (json.RawMessage, error) {
	raw, found, err := mcp.Lookup(params, key)
	if err == nil {
		err = checkDeclaration(raw, key)
	}
	if err != nil {
		return nil, err
	}
	if !found {
		return json.RawMessage(`{}`), nil
	}
	return bytes.Clone(raw), nil
}

// checkDeclaration refuses what is not an object of bounded size; nil is none. The error
// is an *mcp.Error that calls it name.
func checkDeclaration(raw json.RawMessage, name string) error {
	switch {
	case raw == nil:
		return nil
	case raw[0] != '{':
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: name + " must be an object"}
	case len(raw) > maxDeclarations:
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: fmt.Sprintf("%s is larger than %d bytes", name, maxDeclarations)}
	}
	return nil
}

// open opens the connection of s for client. Whoever calls it puts s into the
// table.
func (g *Gateway) open(ctx context.Context, s *session, client *exchange.Client) error {
	s.mu.Lock()
	switch {
	case s.over:
		s.mu.Unlock()
		return errSessionOver
	case s.conn != nil || s.opening:
		s.mu.Unlock()
		return errInitialized
	}
	l, ok := g.declared.lend(len(client.Capabilities)+len(client.Info), smallDeclarations)
	if !ok {
		s.mu.Unlock()
		return errClientRoom
	}
	s.declared.drop() // of an attempt before
	s.opening, s.client, s.declared = true, client, l
	s.mu.Unlock()

	// Nobody but the client that waits is served by the session, and nobody
	// waits once the gateway closes.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.ctx, func() { cancel(errStopping) })()
	conn, err := g.cfg.Backend.Open(ctx, client, s)
	if cause := context.Cause(ctx); cause != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = cause
	}
	version := mcp.Version("")
	if err == nil {
		version, err = agreed(conn)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.opening, s.seen = false, time.Now()
	if err == nil && s.over {
		err = s.cause
	}
	if err != nil {
		g.release(conn)
		return err
	}
	s.conn, s.version = conn, version
	return nil
}

// agreed reads the version out of the server's answer.
func agreed(conn exchange.Conn) (mcp.Version, error) {
	v, _, err := mcp.LookupString(conn.InitializeResult(), "protocolVersion")
	if err != nil {
		return "", fmt.Errorf("the server's answer to initialize cannot be read: %w", err)
	}
	if !mcp.Version(v).IsSession() {
		return "", fmt.Errorf("the server answered initialize with a protocol version that we do not speak")
	}
	return mcp.Version(v), nil
}
