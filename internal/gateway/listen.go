package gateway

import (
	"net/http"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// listen serves the stream for what belongs to no request. A session has one: a
// new one replaces it, since a client that lost its connection comes back
// before we notice.
func (g *Gateway) listen(w http.ResponseWriter, r *http.Request) {
	if _, events := accepts(r); !events {
		protocolFault(w, http.StatusNotAcceptable, "the Accept header of a GET must allow text/event-stream")
		return
	}
	s := g.sessionFor(w, r)
	if s == nil {
		return
	}
	st := newStream(w, &g.pace)
	if err := s.attach(st); err != nil {
		g.fail(w, http.StatusNotFound, mcp.ID{}, err)
		return
	}
	st.run(r.Context().Done(), s.conn.Done())
	s.detach(st)
	if !s.alive() {
		g.end(s, errServerLost)
	}
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
	if err := checkEra(r.Header.Get(mcp.HeaderVersion), nil); err != nil {
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
