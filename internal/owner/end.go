package owner

import (
	"context"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// drainTimeout is how long calls in flight may take to end at a stop.
const drainTimeout = 10 * time.Second

// closeTimeout is how long the gateway may take to end in all: calls, and then the
// server's processes, which the guest kills when they have not ended in 3 s.
const closeTimeout = drainTimeout + 5*time.Second

// close drains the gateway and ends what it has running. A guest that does not answer
// any more, because its container is paused or the machine hangs, cannot end servers,
// and the gateway would wait for them as long: then the container goes first.
func (o *owner) close(front *gateway.Gateway) {
	o.set(workload.Stopping, "")
	drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- front.Close(drain) }()
	var late <-chan time.Time
	if o.instance != nil { // requests to a remote server have timeouts of their own
		late = time.After(closeTimeout)
	}
	var err error
	select {
	case err = <-closed:
	case <-late:
		o.log.Warn("the server did not end after its input was closed; removing its container")
		o.tearDown()
		err = <-closed
	}
	if err != nil {
		o.log.Warn("calls were cut off at the stop", "error", err)
	}
}

// tearDown removes the container, whatever state it is in.
func (o *owner) tearDown() {
	if o.instance == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := o.instance.tearDown(ctx); err != nil {
		o.log.Error("cannot remove the container", "error", err)
	}
}
