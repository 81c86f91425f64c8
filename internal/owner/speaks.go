package owner

import (
	"cmp"
	"strings"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// speaks is "name version" of the server, and the protocol versions it supports, as far
// as they were determined.
func speaks(backend exchange.Backend) (server string, _ *workload.Speaks) {
	s := exchange.ServerInfo{}
	if backend != nil {
		s = backend.ServerInfo()
	}
	out := &workload.Speaks{
		Session:   string(cmp.Or(s.Session, exchange.EraUnknown)),
		Stateless: string(cmp.Or(s.Stateless, exchange.EraUnknown)),
	}
	if s.SessionTranslated {
		out.Translated = append(out.Translated, "session")
	}
	if s.StatelessTranslated {
		out.Translated = append(out.Translated, "stateless")
	}
	return strings.TrimSpace(s.Name + " " + s.Version), out
}

// condition returns the workload's state, its reason, and the processes of a stdio server,
// nil for another. A server that answers, but whose processes are all busy while callers
// wait for one, is degraded, and so is one whose stages do not do all that is configured. The
// caller holds mu.
func (o *owner) condition(backend exchange.Backend) (workload.State, string, *workload.Processes) {
	p := exchange.Processes{}
	if backend != nil {
		p = backend.ServerInfo().Processes
	}
	var processes *workload.Processes
	if p.Max > 0 {
		processes = &workload.Processes{Running: p.Running, Max: p.Max, Waiting: p.Waiting}
	}
	if fault := cmp.Or(p.Busy, o.stages.Fault()); fault != "" && o.state == workload.Running {
		return workload.Degraded, fault, processes
	}
	state, reason := o.loginCondition(o.state, o.reason)
	return state, reason, processes
}
