package httpd

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Budgets of bytes for all clients of a gateway together. Counts alone do not bound its
// memory: a thousand calls of 8 MiB are within the limits of one session.
const (
	// MaxInbound is for bodies of requests, from their first byte until the last call
	// of them has returned: 32 of the largest. Copies that are made on their way to the
	// server are not counted; each is as large, for a short time.
	MaxInbound = 256 << 20
	// MaxSessionInbound is the part of it that one session may use: a server that does
	// not read holds what its client sends.
	MaxSessionInbound = 64 << 20
	// MaxHeld is for what is kept for clients: responses and events that they have not
	// read, and, within one half of it, what may be dropped or refused (see
	// [Budget.TakeHalf]).
	MaxHeld = 512 << 20
	// SmallSize is what a body, a response, or the events that wait on one stream may
	// always have. Nearly all messages are smaller and never use a budget.
	SmallSize = 64 << 10
)

// Budget is a number of bytes that all clients of a gateway share. What is small
// ([SmallSize]) is bounded by the number of its holders and is not counted; what is large
// is taken from the budget and given back, so that a few clients that send much, or read
// nothing, leave room for all others.
type Budget struct {
	// Max is set before the first use.
	Max  int64
	used atomic.Int64
}

// Take takes n bytes, or returns false when fewer are left.
func (b *Budget) Take(n int) bool { return b.takeUpTo(b.Max, n) }

// TakeHalf is Take as long as less than half of the budget is used. It is for what can be
// refused or dropped: notifications for a client without a stream, events for one that may
// come back, requests of servers, declarations of clients. Responses keep the other half.
func (b *Budget) TakeHalf(n int) bool { return b.takeUpTo(b.Max/2, n) }

func (b *Budget) takeUpTo(most int64, n int) bool {
	if b.used.Add(int64(n)) <= most {
		return true
	}
	b.used.Add(int64(-n))
	return false
}

// Force takes n bytes even if fewer are left.
func (b *Budget) Force(n int) { b.used.Add(int64(n)) }

// Give gives n bytes back.
func (b *Budget) Give(n int) { b.used.Add(int64(-n)) }

// Used is the number of bytes in use.
func (b *Budget) Used() int64 { return b.used.Load() }

// Reservation is a reference-counted part of a budget, for what several use, for example a
// body and the calls in it. Nil is the reservation for something small.
type Reservation struct {
	budget *Budget
	share  *Budget // that it is counted in as well, nil for none
	bytes  int
	users  atomic.Int32
}

// newReservation is for n bytes that were taken from b.
func newReservation(b *Budget, n int) *Reservation {
	if n == 0 {
		return nil
	}
	r := &Reservation{budget: b, bytes: n}
	r.users.Store(1)
	return r
}

// Reserve reserves n bytes, if they are more than SmallSize, for one user; ok is false when
// fewer are left.
func (b *Budget) Reserve(n int) (r *Reservation, ok bool) {
	if n <= SmallSize {
		return nil, true
	}
	if !b.Take(n) {
		return nil, false
	}
	return newReservation(b, n), true
}

// ReserveHalf is as Reserve, for more than small bytes and within [Budget.TakeHalf].
func (b *Budget) ReserveHalf(n, small int) (r *Reservation, ok bool) {
	if n <= small {
		return nil, true
	}
	if !b.TakeHalf(n) {
		return nil, false
	}
	return newReservation(b, n), true
}

// Size is the number of bytes.
func (r *Reservation) Size() int64 {
	if r == nil {
		return 0
	}
	return int64(r.bytes)
}

// CountIn counts r in share too, or returns false when share has too little left. It is
// called before r has another user.
func (r *Reservation) CountIn(share *Budget) bool {
	if r == nil {
		return true
	}
	if !share.Take(r.bytes) {
		return false
	}
	r.share = share
	return true
}

// Retain adds a user and returns r, or nil when r was released by all.
func (r *Reservation) Retain() *Reservation {
	if r == nil {
		return nil
	}
	for {
		n := r.users.Load()
		if n == 0 {
			return nil
		}
		if r.users.CompareAndSwap(n, n+1) {
			return r
		}
	}
}

// Release removes a user. The last one gives the bytes back.
func (r *Reservation) Release() {
	if r == nil || r.users.Add(-1) > 0 {
		return
	}
	r.budget.Give(r.bytes)
	if r.share != nil {
		r.share.Give(r.bytes)
	}
}

// Errors for what does not fit into a budget. They are temporary.
var (
	errBodyRoom   = &mcp.Error{Code: mcp.CodeServerGone, Message: "the gateway holds too many large requests at the moment; send this one again in a few seconds"}
	ErrShareRoom  = &mcp.Error{Code: mcp.CodeServerGone, Message: fmt.Sprintf("the large requests of this session that the server has not answered fill %d MiB; wait for its responses, or cancel some, and send this one again", MaxSessionInbound>>20)}
	ErrAskRoom    = &mcp.Error{Code: mcp.CodeInternal, Message: "too many large requests wait for the answers of clients; try again later"}
	ErrAnswerRoom = &mcp.Error{Code: mcp.CodeServerGone, Message: "the gateway holds too many large messages that clients have not read yet; this one was dropped"}
)

// smallQuestion is the size of a server's request that is not counted. A session has few
// of them.
const smallQuestion = 4 << 10

// Hold reserves n bytes for a request of the server, until the client has answered. The error is an *mcp.Error.
func (c *Core) Hold(n int) (release func(), err error) {
	r, ok := c.Held.ReserveHalf(n, smallQuestion)
	if !ok {
		return nil, ErrAskRoom
	}
	return r.Release, nil
}

// AwaitRoom calls try until it returns another error than [ErrAnswerRoom], for a bounded
// time, or until gone is closed. Clients that read their responses make room.
func (c *Core) AwaitRoom(gone <-chan struct{}, try func() error) error {
	err := try()
	if !errors.Is(err, ErrAnswerRoom) {
		return err
	}
	end := time.NewTimer(c.Timing.Room)
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
		if err = try(); !errors.Is(err, ErrAnswerRoom) {
			return err
		}
	}
}

// SizeOf is about the number of bytes of m.
func SizeOf(m *mcp.Message) int {
	n := len(m.ID.String()) + len(m.Method) + len(m.Params) + len(m.Result)
	if m.Error != nil {
		n += len(m.Error.Message) + len(m.Error.Data)
	}
	return n
}
