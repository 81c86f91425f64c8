package sessions

import (
	"net/http"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Listen serves a GET: the stream for messages that belong to no call. A session has one; a
// new one replaces it, since a client that lost its connection comes back before that is
// noticed. With a Last-Event-ID it continues the stream of that event, a POST's too (MCP
// 2025-11-25, basic/transports, Resumability and Redelivery).
func (f *Streamable) Listen(w http.ResponseWriter, r *http.Request) {
	if _, events := httpd.Accepts(r); !events {
		httpd.ProtocolFault(w, http.StatusNotAcceptable, "the Accept header of a GET must allow text/event-stream")
		return
	}
	if !httpd.NoBody(w, r) {
		return
	}
	if r.Header.Get(mcp.HeaderSessionID) == "" {
		// There is no stream without a session, which is 405: clients that try HTTP+SSE
		// first, or listen before they initialize, continue with POST after it, but not
		// after 400 (MCP 2025-11-25, basic/transports, Listening for Messages from the
		// Server).
		w.Header().Set("Allow", "POST, OPTIONS")
		f.core.Fail(w, http.StatusMethodNotAllowed, mcp.ID{}, errNoSession)
		return
	}
	s := f.sessionFor(w, r)
	if s == nil {
		return
	}
	var number, event uint64
	lastID := r.Header.Get(mcp.HeaderLastEventID)
	if lastID != "" {
		var err error
		if number, event, err = s.streams.parseEventID(lastID); err != nil {
			f.core.Fail(w, http.StatusBadRequest, mcp.ID{}, err)
			return
		}
	}
	if s.streams.isOwn(number) {
		s.conn.Listen()
		if !s.alive() { // it was the first message to the server since a restart
			f.store.end(s, errServerLost)
			f.core.Fail(w, http.StatusNotFound, mcp.ID{}, errSessionOver)
			return
		}
	}
	st := f.core.NewStream(w)
	c, err := s.streams.carry(st, lastID != "", number, event)
	if err != nil {
		f.core.Fail(w, http.StatusNotFound, mcp.ID{}, err)
		return
	}
	lost := s.conn.Done()
	if c != &s.streams.own {
		lost = nil // the response to a POST follows nevertheless
	}
	ctx, cancel := httpd.StreamContext(r)
	defer cancel()
	s.streams.left(c, st, st.Run(ctx.Done(), lost, func() { f.store.settle(s) }))
	if !s.alive() {
		f.store.end(s, errServerLost)
	}
}

// Delete serves a DELETE: the client ends its session.
func (f *Streamable) Delete(w http.ResponseWriter, r *http.Request) {
	if s := f.sessionFor(w, r); s != nil {
		f.store.end(s, errDeleted)
		w.WriteHeader(http.StatusNoContent)
	}
}

// sessionFor returns the session of a GET or DELETE. After nil it has written a response.
func (f *Streamable) sessionFor(w http.ResponseWriter, r *http.Request) *session {
	if err := httpd.SessionEraOnly(r, nil); err != nil {
		f.core.Fail(w, http.StatusBadRequest, mcp.ID{}, err)
		return nil
	}
	s, status, err := f.sessionOf(r)
	if err != nil {
		f.core.Fail(w, status, mcp.ID{}, err)
		return nil
	}
	return s
}
