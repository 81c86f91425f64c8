package owner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// patience is with a server that has not answered yet. It tells what is known before
// all of the time is over, and gives up on a server that listens somewhere else. One
// that listens nowhere may be slow: npx and uvx servers can take most of a minute.
//
// Each of its times is a share of what a start may take, so that who waits longer
// for a slow server waits longer here too. Of 60 s: it looks every second, says what
// it sees from 5 s on, and gives up when something has listened on one other port,
// and nothing where it should, for 15 s.
type patience struct {
	transport workload.Transport
	target    int // the port of a server over HTTP
	whole     time.Duration

	began time.Time
	other int // the only port that something listens on, if it is not the target
	since time.Time
}

// look is what may be said at a time when something listens on these ports, "" when it
// is too early; gone is why there is no more to wait for.
func (p *patience) look(now time.Time, ports []int) (known string, gone error) {
	if p.began.IsZero() {
		p.began = now
	}
	other := 0
	if len(ports) == 1 && p.transport != workload.Stdio && ports[0] != p.target {
		other = ports[0]
	}
	if other != p.other {
		p.other, p.since = other, now
	}
	if other != 0 && now.Sub(p.since) >= p.whole/4 {
		return "", fmt.Errorf("the server listens on port %d and not on %d; run it with --target-port %d, or, if it is only slow to listen on %d too, set THV_START_TIMEOUT higher than %s",
			other, p.target, other, p.target, p.whole)
	}
	switch {
	case now.Sub(p.began) < p.whole/12:
		return "", nil
	case p.transport == workload.Stdio && len(ports) == 1:
		return fmt.Sprintf("no answer on the server's standard output yet; it listens on port %d (if it serves HTTP there: --transport streamable-http --target-port %d)", ports[0], ports[0]), nil
	case p.transport == workload.Stdio:
		return "no answer on the server's standard output yet", nil
	case slices.Contains(ports, p.target):
		return fmt.Sprintf("something listens on port %d, but has not answered yet", p.target), nil
	}
	return fmt.Sprintf("nothing listens on port %d yet%s", p.target, guest.Elsewhere(ports)), nil
}

// waitWith has patience with the server until ctx ends, which it does itself, by
// giveUp, when there is no more to wait for.
func (o *owner) waitWith(ctx context.Context, giveUp context.CancelCauseFunc) {
	p := &patience{transport: o.spec.Transport, target: o.spec.TargetPort, whole: o.cfg.StartTimeout}
	tick := time.NewTicker(max(o.cfg.StartTimeout/60, time.Millisecond))
	defer tick.Stop()
	for said := ""; ; {
		known, gone := p.look(time.Now(), o.site.ports(ctx))
		if gone != nil {
			giveUp(gone)
			return
		}
		if known != said && ctx.Err() == nil {
			o.cfg.Notices(workload.Notice{Progress: &workload.Event{Stage: "server", Message: known}})
			said = known
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ports are those that something listens on in the container. On the host's network
// there is no telling whose they are.
func (s *site) ports(ctx context.Context) []int {
	line, _, err := s.current()
	if err != nil || s.spec.NetworkName() == "host" {
		return nil
	}
	ports, err := line.Ports(ctx)
	if err != nil {
		return nil // who waits finds out by itself that the container has ended
	}
	return ports
}
