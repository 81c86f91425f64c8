package owner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"syscall"

	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/process"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// proxyPort is the port of a workload's gateway.
type proxyPort struct {
	store *manager.Store
	spec  *workload.Spec
	again bool // the workload ran before
	log   *slog.Logger
}

// listen opens the gateway's port. An owner of the same workload that lost its state,
// and so its hold, is ended when it is in the way.
func (p *proxyPort) listen(ctx context.Context) (net.Listener, error) {
	address := net.JoinHostPort(p.spec.Proxy.Host, strconv.Itoa(p.spec.Proxy.Port))
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		ended, strayErr := p.store.EndStrayOwners(ctx, p.spec.Name)
		switch {
		case strayErr != nil:
			return nil, strayErr
		case ended > 0:
			p.log.Warn("ended a gateway of this workload that had lost its state")
			l, err = lc.Listen(ctx, "tcp", address)
		}
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, p.taken()
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return l, nil
}

// taken is the error of a port that another program has.
func (p *proxyPort) taken() error {
	holder, end := "another program", "end that program"
	if w := p.workload(); w != "" {
		holder, end = fmt.Sprintf("workload %q", w), "stop that with `thv stop "+w+"`"
	} else if pid, name := process.Listener(p.spec.Proxy.Port); pid != 0 {
		holder, end = fmt.Sprintf("process %d (%s)", pid, name), "end that process"
	}
	if p.again {
		return fmt.Errorf("port %d is in use by %s; %s, and then `thv start %s`", p.spec.Proxy.Port, holder, end, p.spec.Name)
	}
	return fmt.Errorf("port %d is in use by %s; %s, or choose another --proxy-port", p.spec.Proxy.Port, holder, end)
}

// workload names another workload of this store that has the port, if one
// runs there.
func (p *proxyPort) workload() string {
	names, err := p.store.Names()
	if err != nil {
		return ""
	}
	for _, name := range names {
		if name == p.spec.Name {
			continue
		}
		if spec, err := p.store.Get(name); err == nil && spec.Proxy.Port == p.spec.Proxy.Port {
			if holder, err := p.store.Owner(name); err == nil && holder != nil {
				return name
			}
		}
	}
	return ""
}
