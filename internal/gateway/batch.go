package gateway

import (
	"net/http"
	"slices"
	"sync"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

var errNoBatches = &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "batches exist in protocol version 2025-03-26 only; send one message per POST"}

// serveBatch answers every request of a batch (MCP 2025-03-26,
// basic/transports): all at the same time, in one answer.
func (g *Gateway) serveBatch(p *post, s *session) {
	var requests []*mcp.Message
	for _, m := range p.messages {
		if m.Kind() == mcp.Request {
			requests = append(requests, m)
		}
	}
	if len(requests) == 0 {
		g.accept(p, s)
		return
	}
	if !g.calls.enter() {
		g.fail(p.w, http.StatusServiceUnavailable, mcp.ID{}, errStopping)
		return
	}
	defer g.calls.leave()
	s.answering.enter()
	defer s.answering.leave()
	for _, m := range p.messages {
		if m.Kind() == mcp.Request {
			continue
		}
		if err := g.take(p, s, m); err != nil {
			g.log.Warn("a notification in a batch did not reach the server", "method", short(m.Method), "error", err)
		}
	}
	reply := p.reply(g, s)
	reply.start()
	responses := make([]*mcp.Message, len(requests))
	var all sync.WaitGroup
	for i, m := range requests {
		all.Go(func() { responses[i], _ = g.play(p.r, s, m, reply) })
	}
	all.Wait()
	status := http.StatusOK
	if slices.ContainsFunc(responses, func(m *mcp.Message) bool { return s.lostBy(m.Error) }) {
		status = http.StatusNotFound
	}
	reply.finish(status, responses, true)
}
