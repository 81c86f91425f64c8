package owner

import (
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// limited is a stdio server's backend.
type limited struct {
	exchange.Backend
	processes exchange.Processes
}

func (l limited) ServerInfo() exchange.ServerInfo {
	return exchange.ServerInfo{Processes: l.processes}
}

func TestConditionWhenAllProcessesAreBusy(t *testing.T) {
	const busy = "all 32 server processes are busy"
	for name, tt := range map[string]struct {
		state     workload.State
		processes exchange.Processes
		want      workload.State
		reason    string
	}{
		"free":               {workload.Running, exchange.Processes{Running: 31, Max: 32}, workload.Running, "own"},
		"busy":               {workload.Running, exchange.Processes{Running: 32, Max: 32, Waiting: 3, Busy: busy}, workload.Degraded, busy},
		"busy and degraded":  {workload.Degraded, exchange.Processes{Running: 32, Max: 32, Busy: busy}, workload.Degraded, "own"},
		"busy and stopping":  {workload.Stopping, exchange.Processes{Running: 32, Max: 32, Busy: busy}, workload.Stopping, "own"},
		"not a stdio server": {workload.Running, exchange.Processes{}, workload.Running, "own"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &owner{state: tt.state, reason: "own"}
			state, reason, processes := o.condition(limited{processes: tt.processes})
			if state != tt.want || reason != tt.reason {
				t.Errorf("the workload is %s, %q; want %s, %q", state, reason, tt.want, tt.reason)
			}
			if (processes == nil) != (tt.processes.Max == 0) || processes != nil && processes.Running != tt.processes.Running {
				t.Errorf("the processes are %+v, want %+v", processes, tt.processes)
			}
		})
	}
}
