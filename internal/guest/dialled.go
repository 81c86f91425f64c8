package guest

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
)

// dialled is a TCP connection inside the container. Closing a yamux stream closes one
// direction; closing a connection closes both and makes blocked reads return.
type dialled struct {
	*yamux.Stream
	closed atomic.Bool
}

func (c *dialled) Read(b []byte) (int, error) {
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := c.Stream.Read(b)
	if err != nil && c.closed.Load() {
		return n, net.ErrClosed
	}
	return n, err
}

func (c *dialled) Write(b []byte) (int, error) {
	n, err := c.Stream.Write(b)
	if err != nil && c.closed.Load() {
		return n, net.ErrClosed
	}
	return n, err
}

// Close ends both directions: the guest closes the connection when its
// stream's input ends.
func (c *dialled) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	err := c.Stream.Close()
	c.wake()
	return err
}

func (c *dialled) SetDeadline(t time.Time) error {
	defer c.wake()
	return c.Stream.SetDeadline(t)
}

func (c *dialled) SetReadDeadline(t time.Time) error {
	defer c.wake()
	return c.Stream.SetReadDeadline(t)
}

// wake makes readers of a closed connection return.
func (c *dialled) wake() {
	if c.closed.Load() {
		_ = c.Stream.SetReadDeadline(time.Unix(1, 0))
	}
}
