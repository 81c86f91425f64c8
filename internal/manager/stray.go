package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/process"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// A stray is something of a workload that its lock does not lead to: an owner whose
// lock file was deleted or replaced, or a container without an owner. An owner that
// works restores its files within seconds (see Ownership.Serve), so a stray owner is
// one that is stopped by a signal or of an earlier version.

// Stray is an owner or a container without state.
type Stray struct {
	Name      string
	PID       int    // of the owner, or 0
	Container string // its name, or ""
}

// strayOwners lists the processes that hold a lock on a deleted lock file of this
// store; "" is those of all names.
func (s owners) strayOwners(name string) []Stray {
	var strays []Stray
	for _, l := range process.LocksIn(s.runDir()) {
		owned, isLock := strings.CutSuffix(filepath.Base(l.Path), ".lock")
		if isLock && l.Deleted && (name == "" || owned == name) && l.PID != os.Getpid() {
			strays = append(strays, Stray{Name: owned, PID: l.PID})
		}
	}
	return strays
}

// EndStrayOwners ends the processes that own a workload without state, gracefully
// where they react to SIGTERM within stopTimeout. It returns how many there were. It
// looks at every process of the system, which takes some milliseconds.
func (s owners) EndStrayOwners(ctx context.Context, name string) (int, error) {
	strays := s.strayOwners(name)
	var errs []error
	for _, stray := range strays {
		errs = append(errs, s.endStray(ctx, stray))
	}
	return len(strays), errors.Join(errs...)
}

func (s owners) endStray(ctx context.Context, stray Stray) error {
	p, err := os.FindProcess(stray.PID) // a pidfd on Linux
	if err != nil {
		return fmt.Errorf("end the gateway of workload %q (process %d): %w", stray.Name, stray.PID, err)
	}
	defer p.Release()
	if !slices.Contains(s.strayOwners(stray.Name), stray) {
		return nil // it ended before it was pinned, or has restored its files
	}
	gone := func() bool { return process.Exited(stray.PID) }
	if !process.Frozen(stray.PID) && p.Signal(syscall.SIGTERM) == nil {
		if wait(ctx, stopTimeout, gone) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return &interruption{fmt.Sprintf("the gateway of workload %q (process %d) is ending, and continues to end", stray.Name, stray.PID), err}
		}
	}
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the gateway of workload %q (process %d): %w", stray.Name, stray.PID, err)
	}
	if !wait(context.WithoutCancel(ctx), killTime, gone) {
		return fmt.Errorf("workload %q: process %d does not end after being killed", stray.Name, stray.PID)
	}
	return nil
}

// wait polls until done, or until limit or ctx ends.
func wait(ctx context.Context, limit time.Duration, done func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Strays lists what belongs to this store on this machine and has no state: owners
// whose lock is gone, and containers that run without an owner or whose workload is
// not stored. engine may be nil.
func (m *Manager) Strays(ctx context.Context, engine container.Engine) ([]Stray, error) {
	strays := m.store.strayOwners("")
	if engine == nil {
		return strays, nil
	}
	containers, err := engine.List(ctx, map[string]string{LabelStore: m.store.ID()})
	if err != nil {
		return strays, err
	}
	for _, c := range containers {
		name := c.Labels[LabelWorkload]
		if workload.ValidName(name) != nil || c.State != "running" && m.store.has(name) {
			continue
		}
		if owner, err := m.store.Owner(name); err == nil && owner == nil {
			strays = append(strays, Stray{Name: name, Container: c.Name})
		}
	}
	return strays, nil
}

// stillServed is an error when a gateway of the workload, which has no owner any more,
// answers at the workload's URL. It may be one that cannot be identified as this
// store's, so it is named and not ended.
func stillServed(ctx context.Context, spec *workload.Spec) error {
	if spec == nil || !answers(ctx, spec) {
		return nil
	}
	pid, program := process.Listener(spec.Proxy.Port)
	if pid == 0 {
		return fmt.Errorf("workload %q: a gateway of that name still answers at %s, and its process cannot be identified; end the program that listens on port %d", spec.Name, spec.URL(), spec.Proxy.Port)
	}
	for _, l := range process.LocksOf(pid) {
		if !l.Deleted && strings.HasSuffix(l.Path, "/run/"+spec.Name+".lock") {
			return nil // a workload of another state directory has the same name and port
		}
	}
	return fmt.Errorf("workload %q: process %d (%s) still answers at %s; end it with `kill %d`", spec.Name, pid, program, spec.URL(), pid)
}

// answers reports whether a gateway of a workload of that name is at the Spec's URL.
func answers(ctx context.Context, spec *workload.Spec) bool {
	client, err := netguard.Client(netguard.Options{AllowPrivate: true, AllowLoopback: true, AllowHTTP: true, Timeout: controlTimeout})
	if err != nil {
		return false
	}
	defer client.CloseIdleConnections()
	health, err := url.JoinPath(spec.URL(), "/../health")
	if err != nil {
		return false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, health, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var report struct{ Workload string }
	return json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&report) == nil && report.Workload == spec.Name
}
