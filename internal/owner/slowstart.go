package owner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// slowStart observes a server that has not responded yet. It reports what is known
// before StartTimeout is over, and gives up on a server that listens on another port. A
// server that listens nowhere may be slow: npx and uvx servers can take most of a minute.
//
// Its times are shares of StartTimeout. Of 60 s: it looks every second, reports from 5 s
// on, and gives up when something has listened on one other port, and nothing on the
// right one, for 15 s.
type slowStart struct {
	transport workload.Transport
	target    int // the port of a server over HTTP
	whole     time.Duration

	began time.Time
	other int // the only port that something listens on, if it is not the target
	since time.Time
}

// look returns what to report when something listens on these ports, "" when it is too
// early; gone is why waiting on is pointless.
func (p *slowStart) look(now time.Time, ports []int) (known string, gone error) {
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

// reportSlowStart reports on a server that has not responded yet until ctx ends, and
// calls giveUp when waiting on is pointless.
func (o *owner) reportSlowStart(ctx context.Context, giveUp context.CancelCauseFunc) {
	p := &slowStart{transport: o.spec.Transport, target: o.spec.TargetPort, whole: o.cfg.StartTimeout}
	tick := time.NewTicker(max(o.cfg.StartTimeout/60, time.Millisecond))
	defer tick.Stop()
	for reported := ""; ; {
		known, gone := p.look(time.Now(), o.instance.ports(ctx))
		if gone != nil {
			giveUp(gone)
			return
		}
		if known != reported && ctx.Err() == nil {
			o.cfg.Notices(manager.Notice{Progress: &manager.Event{Stage: "server", Message: known}})
			reported = known
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ports are those that something listens on in the container. On the host's network
// they cannot be attributed.
func (s *instance) ports(ctx context.Context) []int {
	line, _, err := s.current()
	if err != nil || s.spec.NetworkName() == "host" {
		return nil
	}
	ports, err := line.Ports(ctx)
	if err != nil {
		return nil // the caller sees that the container has ended
	}
	return ports
}
