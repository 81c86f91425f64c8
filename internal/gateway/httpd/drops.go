package httpd

import (
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Drops counts the notifications that did not reach a client, and logs the first that did
// not reach a connected one. The zero Drops is ready.
type Drops struct {
	n      atomic.Int64
	logged atomic.Bool
}

// Note counts m as dropped because of err; nil means that it was not.
func (d *Drops) Note(log *slog.Logger, m *mcp.Message, err error) {
	if err == nil {
		return
	}
	d.n.Add(1)
	if !errors.Is(err, ErrStreamOver) && d.logged.CompareAndSwap(false, true) {
		log.Warn("a notification to a client was dropped; further ones are counted", "method", Short(m.Method), "reason", err)
	}
}

// Add counts n notifications that a full backlog dropped.
func (d *Drops) Add(n int) { d.n.Add(int64(n)) }

// Report logs the number at the end of what; nothing when it is 0.
func (d *Drops) Report(log *slog.Logger, what string) {
	if n := d.n.Load(); n > 0 {
		log.Info("notifications did not reach a client", "until the end of", what, "dropped", n)
	}
}

// Count is the number so far.
func (d *Drops) Count() int { return int(d.n.Load()) }
