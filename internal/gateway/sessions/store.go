// Package sessions has the fronts of the session era: streamable HTTP (MCP 2025-11-25,
// basic/transports, also for 2025-06-18 and 2025-03-26) and HTTP+SSE (MCP 2024-11-05).
//
// Both keep a session per client: its declarations, one [exchange.Conn], the calls in
// flight, the server's requests that wait for an answer, and the streams. A session belongs
// to the principal that began it; only its id leads to it. The id is sealed and holds what
// is needed to continue the session, so that a gateway which restarts continues it, as long
// as the server knows it. A client that disconnects has not cancelled anything: its call
// continues, and the client can come back for the response with Last-Event-ID. A plain JSON
// response that the client does not read is lost.
package sessions

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/taskgroup"
)

// Store opens, finds, resumes and ends the sessions of one gateway.
type Store struct {
	core *httpd.Core
	// lasting is set when a later gateway can open the ids of this one.
	lasting  bool
	ids      ids
	table    table
	shared   shared
	resuming singleflight.Group
	closing  taskgroup.Group // connections that are being closed
	sweeping sync.WaitGroup
}

// NewStore makes a store, which [Store.Close] ends. lasting is set when the key of
// [httpd.Core.Sealer] outlives this gateway.
func NewStore(core *httpd.Core, lasting bool) *Store {
	st := &Store{core: core, lasting: lasting, ids: newIDs(core), table: newTable(&core.MaxSessions)}
	st.sweeping.Go(st.sweep)
	return st
}

// Len is the number of open sessions.
func (st *Store) Len() int { return st.table.len() }

// find returns the principal's session with the id, nil when there is none or its server
// is gone.
func (st *Store) find(id, principal string) *session {
	s := st.table.get(id)
	if s == nil || s.principal != principal {
		return nil
	}
	if !s.alive() {
		st.end(s, errServerLost)
		return nil
	}
	return s
}

// Holder returns the address of the other replica that has the principal's session with the
// id; "" when it is here, or in none.
func (st *Store) Holder(id, principal string) string {
	if st.core.Self == "" || st.table.get(id) != nil {
		return ""
	}
	if t, ok := st.ids.open(id, principal); ok && t.holder != st.core.Self {
		return t.holder
	}
	return ""
}

// open opens the connection of s for client. The caller puts s into the table.
func (st *Store) open(ctx context.Context, s *session, client *exchange.Client) error {
	s.mu.Lock()
	switch {
	case s.over:
		s.mu.Unlock()
		return errSessionOver
	case s.conn != nil || s.opening:
		s.mu.Unlock()
		return errInitialized
	}
	declared, ok := st.core.Held.ReserveHalf(len(client.Capabilities)+len(client.Info), smallDeclarations)
	if !ok {
		s.mu.Unlock()
		return errDeclarationRoom
	}
	s.declared.Release() // of a failed attempt
	s.opening, s.client, s.declared = true, client, declared
	s.mu.Unlock()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(st.core.Context, func() { cancel(httpd.ErrStopping) })()
	conn, err := st.core.Backend.Open(ctx, client, s)
	if cause := context.Cause(ctx); cause != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = cause
	}
	version := mcp.Version("")
	if err == nil {
		version, err = agreedVersion(conn)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.opening, s.seen = false, time.Now()
	if err == nil && s.over {
		err = s.cause
	}
	if err != nil {
		st.release(conn)
		return err
	}
	s.conn, s.version = conn, version
	s.streams.agree(version)
	return nil
}

// name gives s its id, which does not change afterwards, and returns it. The id holds what
// is known of the session at this time.
func (st *Store) name(s *session) string {
	s.mu.Lock()
	id, client, conn := s.id, s.client, s.conn
	s.mu.Unlock()
	if id != "" {
		return id
	}
	// Without the lock: the connection may send messages to the session meanwhile.
	number := newSerial()
	id = st.ids.issue(number, s.principal, client, conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == "" {
		s.id, s.serial = id, number
		s.streams.identify(id)
	}
	return s.id
}

// enroll puts s into the table, or ends it.
func (st *Store) enroll(s *session) error {
	evicted, ok := st.table.add(s)
	for _, old := range evicted {
		st.release(old.end(errExpired))
	}
	if !ok {
		st.release(s.end(httpd.ErrStopping))
		return errFull
	}
	return nil
}

// end takes s out of the table and ends it. Its connection is closed asynchronously, since
// the server may be slow.
func (st *Store) end(s *session, cause error) {
	st.table.remove(s)
	st.release(s.end(cause))
}

// settle waits for a bounded time until the last responses of the server of s were sent: a
// client whose stream ends may close its other connections.
func (st *Store) settle(s *session) {
	ctx, cancel := context.WithTimeout(st.core.Context, st.core.Timing.Settle)
	defer cancel()
	s.answering.Wait(ctx)
}

// release closes conn, if there is one.
func (st *Store) release(conn exchange.Conn) {
	if conn == nil {
		return
	}
	st.closing.Enter()
	go func() {
		defer st.closing.Leave()
		if err := conn.Close(); err != nil {
			st.core.Log.Debug("close a connection to the server", "error", err)
		}
	}()
}

// sweep ends sessions that were idle for the TTL, and those whose server is gone.
func (st *Store) sweep() {
	every := min(max(st.core.Endpoint.SessionTTL/8, 100*time.Millisecond), 30*time.Second)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-st.core.Context.Done():
			return
		case now := <-tick.C:
			st.Expire(now)
		}
	}
}

// Expire ends the sessions that have been idle for the TTL at the time now.
func (st *Store) Expire(now time.Time) {
	before := now.Add(-st.core.Endpoint.SessionTTL)
	for _, s := range append(st.table.expire(before), st.shared.expire(before)...) {
		st.release(s.end(errExpired))
	}
	st.table.trim(now.Add(-replayTime))
}

// End ends all sessions. Those that the next gateway can resume are left as they are at
// the server. [httpd.Core.Context] has ended before.
func (st *Store) End() {
	for _, s := range append(st.table.close(), st.shared.close()...) {
		conn := s.end(httpd.ErrStopping)
		if conn == nil || !st.lasting || s.id == "" {
			continue
		}
		if t, ok := st.ids.open(s.id, s.principal); ok && t.resumable {
			_ = conn.Leave() // the backend's Close reports the same error
		}
	}
}

// Wait waits until ctx ends for what the end of the sessions began.
func (st *Store) Wait(ctx context.Context) {
	st.sweeping.Wait()
	st.closing.Wait(ctx)
}

// openStatus is the HTTP status for a session that could not be opened.
func (st *Store) openStatus(err error) int {
	if errors.Is(err, errDeclarationRoom) || errors.Is(err, errFull) {
		return http.StatusServiceUnavailable
	}
	return st.core.OpenStatus(err)
}
