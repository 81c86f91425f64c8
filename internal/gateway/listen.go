package gateway

import (
	"net/http"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// listen serves the stream for what belongs to no request. A session has one: a
// new one replaces it, since a client that lost its connection comes back
// before we notice. With a Last-Event-ID it goes on with the stream that the
// event was on, a POST's too (MCP 2025-11-25, basic/transports, Resumability and
// Redelivery).
func (g *Gateway) listen(w http.ResponseWriter, r *http.Request) {
	if _, events := accepts(r); !events {
		protocolFault(w, http.StatusNotAcceptable, "the Accept header of a GET must allow text/event-stream")
		return
	}
	if !noBody(w, r) {
		return
	}
	if r.Header.Get(mcp.HeaderSessionID) == "" {
		// No stream is there without a session, and 405 says that: clients that try HTTP+SSE
		// first, or listen before they initialize, go on with POST then, but not after 400
		// (MCP 2025-11-25, basic/transports, Listening for Messages from the Server).
		w.Header().Set("Allow", "POST, OPTIONS")
		g.fail(w, http.StatusMethodNotAllowed, mcp.ID{}, errNoSession)
		return
	}
	s := g.sessionFor(w, r)
	if s == nil {
		return
	}
	var number, event uint64
	lastID := r.Header.Get(mcp.HeaderLastEventID)
	if lastID != "" {
		var err error
		if number, event, err = s.parseEventID(lastID); err != nil {
			g.fail(w, http.StatusBadRequest, mcp.ID{}, err)
			return
		}
	}
	if s.isOwn(number) {
		s.conn.Listen()
		if !s.alive() { // it was the first message to the server since a restart
			g.end(s, errServerLost)
			g.fail(w, http.StatusNotFound, mcp.ID{}, errSessionOver)
			return
		}
	}
	st := g.newStream(w)
	c, err := s.carried(st, lastID, number, event)
	if err != nil {
		g.fail(w, http.StatusNotFound, mcp.ID{}, err)
		return
	}
	lost := s.conn.Done()
	if c != &s.own {
		lost = nil // a POST has its outcome even so
	}
	s.leaveChannel(c, st, st.run(r.Context().Done(), lost, func() { g.settle(s) }))
	if !s.alive() {
		g.end(s, errServerLost)
	}
}

// carried makes st carry the stream that a GET is for.
func (s *session) carried(st *stream, lastID string, number, event uint64) (*channel, error) {
	if lastID != "" {
		return s.comeBack(st, number, event)
	}
	return &s.own, s.attach(st)
}

// remove ends a session at its client's wish.
func (g *Gateway) remove(w http.ResponseWriter, r *http.Request) {
	if s := g.sessionFor(w, r); s != nil {
		g.end(s, errDeleted)
		w.WriteHeader(http.StatusNoContent)
	}
}

// sessionFor finds the session of a GET or DELETE; nil when it has answered
// that there is none.
func (g *Gateway) sessionFor(w http.ResponseWriter, r *http.Request) *session {
	if err := sessionOnly(r, nil); err != nil {
		g.fail(w, http.StatusBadRequest, mcp.ID{}, err)
		return nil
	}
	s, status, err := g.sessionOf(r)
	if err != nil {
		g.fail(w, status, mcp.ID{}, err)
		return nil
	}
	return s
}
