package gateway

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// memory is a budget of bytes that all clients of a gateway share. What is small
// ([smallSize]) is bounded by the number of those who can have it, and costs
// nothing; what is large is taken from the budget and given back, so that few who
// send much, or read nothing, leave room for all others.
type memory struct {
	used atomic.Int64
	max  int64
}

// take takes n bytes, or reports that there are not as many left.
func (m *memory) take(n int) bool {
	if m.used.Add(int64(n)) <= m.max {
		return true
	}
	m.used.Add(int64(-n))
	return false
}

// force takes n bytes that are there already, if there is room for them or not.
func (m *memory) force(n int) { m.used.Add(int64(n)) }

func (m *memory) give(n int) { m.used.Add(int64(-n)) }

// has reports whether there is room for n more bytes now.
func (m *memory) has(n int) bool { return m.used.Load()+int64(n) <= m.max }

// loan is what was taken for one thing that several may hold, for example a POST
// and the call that it began. The last one who drops it gives it back. Nil is the
// loan for something small.
type loan struct {
	of      *memory
	session *memory // that it is counted in as well, nil for none
	bytes   int
	holders atomic.Int32
}

// size is how many bytes l is of.
func (l *loan) size() int64 {
	if l == nil {
		return 0
	}
	return int64(l.bytes)
}

// lend takes n bytes for one holder, if they are more than small, or reports that
// there are not as many left.
func (m *memory) lend(n, small int) (l *loan, ok bool) {
	if n <= small {
		return nil, true
	}
	if !m.take(n) {
		return nil, false
	}
	return m.loan(n), true
}

// loan is the loan of n bytes that were taken.
func (m *memory) loan(n int) *loan {
	if n == 0 {
		return nil
	}
	l := &loan{of: m, bytes: n}
	l.holders.Store(1)
	return l
}

// in counts l in what a session has taken as well, or reports that it has as much
// already. It is called before the loan has another holder.
func (l *loan) in(session *memory) bool {
	if l == nil {
		return true
	}
	if !session.take(l.bytes) {
		return false
	}
	l.session = session
	return true
}

// keep adds a holder. What was given back already is nil.
func (l *loan) keep() *loan {
	if l == nil {
		return nil
	}
	for {
		n := l.holders.Load()
		if n == 0 {
			return nil
		}
		if l.holders.CompareAndSwap(n, n+1) {
			return l
		}
	}
}

func (l *loan) drop() {
	if l == nil || l.holders.Add(-1) > 0 {
		return
	}
	l.of.give(l.bytes)
	if l.session != nil {
		l.session.give(l.bytes)
	}
}

// Why something has no room. It is nobody's fault, and passes.
var (
	errBodyRoom   = &mcp.Error{Code: mcp.CodeServerGone, Message: "the gateway holds too many large requests at the moment; send this one again in a few seconds"}
	errShareRoom  = &mcp.Error{Code: mcp.CodeServerGone, Message: fmt.Sprintf("the large requests of this session that the server has not answered fill %d MiB; wait for its answers, or cancel some, and send this one again", maxSessionInbound>>20)}
	errClientRoom = &mcp.Error{Code: mcp.CodeServerGone, Message: "too many sessions are open whose clients declare capabilities or information of more than 4 KiB; declare less, or try again later"}
	errAskRoom    = &mcp.Error{Code: mcp.CodeInternal, Message: "too many large questions wait for their clients to answer them; try again later"}
	errAnswerRoom = &mcp.Error{Code: mcp.CodeServerGone, Message: "the gateway holds too many large messages that clients have not read yet; this one was dropped"}
)

// hold takes n bytes for as long as a question is asked, unless they are few.
func (m *memory) hold(n int) (release func(), err error) {
	l, ok := m.lend(n, smallQuestion)
	if !ok {
		return nil, errAskRoom
	}
	return l.drop, nil
}

// soon does what may have no room for an answer: others may read theirs any
// moment, so it is tried for a while, or until gone is closed.
func (g *Gateway) soon(gone <-chan struct{}, try func() error) error {
	err := try()
	if !errors.Is(err, errAnswerRoom) {
		return err
	}
	end := time.NewTimer(g.pace.room)
	defer end.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-end.C:
			return err
		case <-gone:
			return err
		}
		if err = try(); !errors.Is(err, errAnswerRoom) {
			return err
		}
	}
}

// sizeOf is about how many bytes m has.
func sizeOf(m *mcp.Message) int {
	n := len(m.ID.String()) + len(m.Method) + len(m.Params) + len(m.Result)
	if m.Error != nil {
		n += len(m.Error.Message) + len(m.Error.Data)
	}
	return n
}
