package runcmd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/owner"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// launch stores the workload and starts it. When that fails, or ctx ends before the
// server has answered, the workload is removed. A workload that another command stops
// meanwhile stays, or is removed by that command.
func launch(ctx context.Context, o *options, d *draft) error {
	m, err := o.app.Manager()
	if err != nil {
		return err
	}
	secrets, err := o.app.Secrets()
	if err != nil {
		return err
	}
	name := d.spec.Name
	// What is missing or locked is an error before anything is stored.
	if err := o.app.Unlock(ctx, d.spec); err != nil {
		return err
	}
	// Create reserves the name. Secrets are stored after it: before, they could
	// overwrite another workload's.
	if err := m.Create(ctx, d.spec); err != nil {
		return err
	}
	ready := false
	if err = secrets.PutAll(ctx, name, d.secrets); err == nil {
		if o.foreground {
			ready, err = runOwner(ctx, o, m, d.spec)
		} else {
			ready, err = startDetached(ctx, o, m, name)
		}
	}
	// ErrAlreadyRunning: another command has started what was just stored.
	if ready || errors.Is(err, manager.ErrAlreadyRunning) || errors.Is(err, manager.ErrStoppedEarly) {
		return err
	}
	if err == nil {
		err = ctx.Err() // stopped before it was ready
	}
	if errors.Is(err, manager.ErrNotFound) {
		err = fmt.Errorf("workload %q was %w", name, manager.ErrRemovedEarly)
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if gone := m.Remove(clean, name, o.progress.Event); gone != nil && !errors.Is(gone, manager.ErrNotFound) {
		fmt.Fprintf(o.app.Err, "Note: workload %s is left behind: %s\n", name, plaintext.Lines(gone.Error()))
	}
	return err
}

// startDetached starts the workload in a process of its own and prints its URL.
func startDetached(ctx context.Context, o *options, m *manager.Manager, name string) (ready bool, err error) {
	st, err := m.Launch(ctx, name, o.progress.Event)
	if err != nil {
		return false, err
	}
	o.progress.Done()
	base.PrintState(o.app, st)
	o.app.SyncClients(ctx, name)
	return true, base.PrintReady(o.app, st)
}

// runOwner runs the owner in this process. It returns when the container exits, or on
// Ctrl-C; a workload that was ready stays stored.
func runOwner(ctx context.Context, o *options, m *manager.Manager, spec *workload.Spec) (ready bool, err error) {
	cfg, err := o.app.OwnerConfig(spec.Name)
	if err != nil {
		return false, err
	}
	var answered, stopped atomic.Bool
	cfg.Console = o.app.Err
	if render.IsTerminal(o.app.Err) {
		cfg.Console = plaintext.NewWriter(o.app.Err)
	}
	cfg.Foreground = true
	cfg.Notices = func(n manager.Notice) {
		switch {
		case n.Progress != nil:
			o.progress.Event(*n.Progress)
		case n.Stopped:
			stopped.Store(true)
		case n.Ready:
			answered.Store(true)
			o.progress.Done()
			o.app.SyncClients(ctx, spec.Name)
			st, err := m.Status(ctx, spec.Name)
			if err == nil {
				err = base.PrintReady(o.app, st)
			}
			if err != nil {
				fmt.Fprintln(o.app.Err, "Note: the workload runs, but its status cannot be shown:", plaintext.Lines(err.Error()))
			}
		}
	}
	defer owner.FitProcess()()
	err = owner.Main(ctx, cfg)
	if stopped.Load() && ctx.Err() == nil {
		err = fmt.Errorf("workload %q was %w", spec.Name, manager.ErrStoppedEarly)
	}
	return answered.Load(), err
}
