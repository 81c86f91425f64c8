package stdio

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// The longest time for which a process is held back because one client does not read. After
// that, the client's notifications are dropped until it has read some. A process that
// clients share is held back for a shorter time, since all of them wait.
const (
	sharedRoomTime = 2 * time.Second
	ownRoomTime    = 10 * time.Second
)

// pacer holds a server back that writes notifications faster than a client reads them: the
// reader waits for the client, and the server waits when the pipe is full. It does so for
// notifications that only one client receives. Its fields are used by the reader only.
type pacer struct {
	lifetime context.Context // ends with the process
	roomTime time.Duration
	expired  context.Context // has ended
	receiver *paced          // the one that received the message which is being handled; nil for none
}

func newPacer(lifetime context.Context, roomTime time.Duration, shared bool) *pacer {
	p := &pacer{lifetime: lifetime, roomTime: roomTime}
	switch {
	case roomTime > 0:
	case shared:
		p.roomTime = sharedRoomTime
	default:
		p.roomTime = ownRoomTime
	}
	var cancel context.CancelFunc
	p.expired, cancel = context.WithCancel(context.Background())
	cancel()
	return p
}

// paced is a Peer for which the reader waits.
type paced struct {
	exchange.Peer
	pacer *pacer
	// slow is set when the client has not read anything during roomTime, until it has.
	// The peers of one session share it.
	slow *atomic.Bool
}

// wrap returns peer as one for which the reader waits, unless slow is set.
func (p *pacer) wrap(peer exchange.Peer, slow *atomic.Bool) *paced {
	return &paced{wire.OrNoPeer(peer), p, slow}
}

// Notify implements [exchange.Peer]. Only the reader calls it.
func (q *paced) Notify(m *mcp.Message) {
	q.Peer.Notify(m)
	q.pacer.receiver = q
}

// received makes the reader wait for a peer that is the only one to receive the message.
func (p *pacer) received(peer exchange.Peer, slow *atomic.Bool) { p.receiver = p.wrap(peer, slow) }

// wait waits until the client that received the last message has room for another.
func (p *pacer) wait() {
	q := p.receiver
	p.receiver = nil
	if q == nil {
		return
	}
	if q.AwaitRoom(p.expired) == nil {
		q.slow.Store(false)
		return
	}
	if q.slow.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(p.lifetime, p.roomTime)
	defer cancel()
	q.slow.Store(q.AwaitRoom(ctx) != nil)
}
