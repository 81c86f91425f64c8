package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func newStop(app *base.App) *cobra.Command {
	s := &base.Selection{Strays: true}
	cmd := &cobra.Command{
		Use:   "stop" + base.SelectionUsage,
		Short: "Stop workloads",
		Long: `Stop ends workloads and their containers. They are kept and can be started again;
their URLs do not change. A workload that is still starting is stopped too; the command
that starts it then fails.

New calls are refused. Calls that are running have 10 s to end, and then the server
has 10 s. A gateway that has not exited after 30 s, or that does not respond, is
killed, and its container with it.

Ctrl-C ends the waiting, not the stop.

` + base.JSONHelp,
		Example: `  thv stop time
  thv stop --group work
  thv stop --all`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runStop(cmd.Context(), app, s) },
	}
	s.Flags(cmd)
	base.OutputFlag(cmd, app)
	return cmd
}

func runStop(ctx context.Context, app *base.App, s *base.Selection) error {
	m, names, err := s.Resolve(ctx, app)
	if err != nil {
		return err
	}
	p := render.NewProgress(app.Err, app.Env)
	defer p.Done()
	var stopped []*workload.Status
	err = base.Each(ctx, app, names, func(name string) error {
		err := m.Stop(ctx, name, p.Event)
		p.Done()
		switch {
		case errors.Is(err, manager.ErrNotRunning):
			fmt.Fprintf(app.Err, "%s is not running\n", name)
		case err == nil:
			fmt.Fprintf(app.Err, "%s stopped\n", name)
		default:
			return err
		}
		if !app.JSON {
			return nil
		}
		st, err := m.Status(ctx, name)
		if err == nil {
			stopped = append(stopped, st)
		}
		return err
	})
	return base.Show(app, s.One(), stopped, err)
}

func newRm(app *base.App) *cobra.Command {
	s := &base.Selection{Strays: true}
	cmd := &cobra.Command{
		Use:   "rm" + base.SelectionUsage,
		Short: "Stop and remove workloads",
		Long: `Remove ends workloads, as stop does, and deletes their configuration, logs and
secrets, and its entries in the clients that are set up. A workload that is run again
under the same name has the same URL.

After a Ctrl-C while it waits, the workload is still stopped, but not removed.

` + base.JSONHelp + ` The state is
"removed" then.`,
		Example: `  thv rm time
  thv rm --group work`,
		Aliases: []string{"remove", "delete"},
		RunE:    func(cmd *cobra.Command, _ []string) error { return runRm(cmd.Context(), app, s) },
	}
	s.Flags(cmd)
	base.OutputFlag(cmd, app)
	return cmd
}

func runRm(ctx context.Context, app *base.App, s *base.Selection) error {
	m, names, err := s.Resolve(ctx, app)
	if err != nil {
		return err
	}
	store, err := app.Store()
	if err != nil {
		return err
	}
	p := render.NewProgress(app.Err, app.Env)
	defer p.Done()
	var removed []*workload.Status
	err = base.Each(ctx, app, names, func(name string) error {
		st := &workload.Status{Name: name}
		// A workload whose configuration is lost can be removed too.
		if spec, err := store.Get(name); err == nil {
			st = spec.Status()
			st.Created = store.Created(name)
		}
		err := m.Remove(ctx, name, p.Event)
		p.Done()
		if err != nil {
			return err
		}
		fmt.Fprintf(app.Err, "%s removed\n", name)
		app.ForgetClients(ctx, name)
		st.State = workload.Removed
		removed = append(removed, st)
		return nil
	})
	return base.Show(app, s.One(), removed, err)
}

func newStart(app *base.App) *cobra.Command {
	return startCommand(app, &cobra.Command{
		Use:   "start" + base.SelectionUsage,
		Short: "Start stopped workloads",
		Long: `Start runs workloads again as they were, waits for their servers' first response, and
prints their URLs.

` + base.JSONHelp,
		Example: `  thv start time
  thv start --all`,
	}, func(ctx context.Context, m *manager.Manager, name string, p *render.Progress) (*workload.Status, error) {
		st, err := m.Start(ctx, name, p.Event)
		if !errors.Is(err, manager.ErrAlreadyRunning) {
			return st, err
		}
		// It has a gateway, which may not serve yet.
		if st, err = m.Status(ctx, name); err == nil && !base.Serves(st) {
			return nil, fmt.Errorf("workload %q %s; %s", name, base.Condition(st), base.Advice(st))
		}
		return st, err
	})
}

func newRestart(app *base.App) *cobra.Command {
	return startCommand(app, &cobra.Command{
		Use:   "restart" + base.SelectionUsage,
		Short: "Stop workloads and start them again",
		Long: `Restart ends workloads, as stop does, and starts them again, as start does.

After a Ctrl-C while it waits for the end, the workload is still stopped, but not
started again.

` + base.JSONHelp,
		Example: `  thv restart time
  thv restart --group work`,
	}, func(ctx context.Context, m *manager.Manager, name string, p *render.Progress) (*workload.Status, error) {
		return m.Restart(ctx, name, p.Event)
	})
}

// starter starts one workload.
type starter = func(context.Context, *manager.Manager, string, *render.Progress) (*workload.Status, error)

// startCommand completes start and restart; do starts one workload.
func startCommand(app *base.App, cmd *cobra.Command, do starter) *cobra.Command {
	s := &base.Selection{}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runStart(cmd.Context(), app, s, do) }
	s.Flags(cmd)
	base.OutputFlag(cmd, app)
	return cmd
}

func runStart(ctx context.Context, app *base.App, s *base.Selection, do starter) error {
	if _, err := app.StartTimeout(); err != nil {
		return err
	}
	m, names, err := s.Resolve(ctx, app)
	if err != nil {
		return err
	}
	p := render.NewProgress(app.Err, app.Env)
	defer p.Done()
	var started []*workload.Status
	err = base.Each(ctx, app, names, func(name string) error {
		st, err := do(ctx, m, name, p)
		p.Done()
		if err != nil {
			return err
		}
		started = append(started, st)
		base.PrintState(app, st)
		app.SyncClients(ctx, name)
		for _, caution := range st.Cautions {
			fmt.Fprintf(app.Err, "Note: %s: %s\n", name, plaintext.Lines(caution))
		}
		if app.JSON {
			return nil // Show prints them together
		}
		return base.PrintReady(app, st)
	})
	return base.Show(app, s.One(), started, err)
}
