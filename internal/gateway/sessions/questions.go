package sessions

import (
	"sync"

	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// questions are the requests of the server that wait for the client's answer, by the id
// that the gateway gave them. Their number is bounded by the backend.
type questions struct {
	mu   sync.Mutex
	last int64
	open map[mcp.ID]chan httpd.Answer
}

// startAfter makes ids begin after n.
func (q *questions) startAfter(n int64) { q.last = n }

func (q *questions) add() (mcp.ID, <-chan httpd.Answer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open == nil {
		q.open = map[mcp.ID]chan httpd.Answer{}
	}
	q.last++
	id := mcp.IntID(q.last)
	answered := make(chan httpd.Answer, 1)
	q.open[id] = answered
	return id, answered
}

func (q *questions) remove(id mcp.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, id)
}

// answer passes the client's response to the caller that waits for it; body is the
// reservation for the body that it came in. It returns false for a response that is late or
// belongs to no request.
func (q *questions) answer(m *mcp.Message, body *httpd.Reservation) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	answered := q.open[m.ID]
	if answered == nil {
		return false
	}
	delete(q.open, m.ID) // one answer each
	answered <- httpd.Answer{Result: m.Result, Error: m.Error, Body: body.Retain()}
	return true
}
