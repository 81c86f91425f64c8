package sessions

import (
	"net/http"
	"slices"
	"sync"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// serveBatch handles a batch (MCP 2025-03-26, basic/transports): all its requests
// concurrently, in one reply.
func (f *Streamable) serveBatch(p *httpd.Post, s *session) {
	var requests []*mcp.Message
	for _, m := range p.Messages {
		if m.Kind() == mcp.Request {
			requests = append(requests, m)
		}
	}
	if len(requests) == 0 {
		f.accept(p, s)
		return
	}
	if !f.core.Calls.Enter() {
		f.core.Fail(p.W, http.StatusServiceUnavailable, mcp.ID{}, httpd.ErrStopping)
		return
	}
	defer f.core.Calls.Leave()
	s.answering.Enter()
	defer s.answering.Leave()
	for _, m := range p.Messages {
		if m.Kind() == mcp.Request {
			continue
		}
		if err := s.receive(p, m); err != nil {
			f.core.Log.Warn("a notification in a batch did not reach the server", "method", httpd.Short(m.Method), "error", err)
		}
	}
	peer := f.newPeer(p, s)
	responses := make([]*mcp.Message, len(requests))
	var all sync.WaitGroup
	for i, m := range requests {
		all.Go(func() { responses[i], _ = f.call(p, m, peer) })
	}
	all.Wait()
	status := http.StatusOK
	if slices.ContainsFunc(responses, func(m *mcp.Message) bool { return s.lostBy(m.Error) }) {
		status = http.StatusNotFound
	}
	peer.reply.Finish(status, responses, true)
}
