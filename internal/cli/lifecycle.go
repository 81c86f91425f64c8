package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func newStop(app *base.App) *cobra.Command {
	s := &base.Selection{}
	cmd := &cobra.Command{
		Use:   "stop" + base.SelectionUsage,
		Short: "Stop workloads",
		Long: `Stop ends workloads and their containers. They stay known and can be started again;
their URLs do not change. That goes for one that is still starting too; the command
that starts it then fails.

No new call is taken. Those that are running have 10 s to end, and then the server
has 10 s. A gateway that has not ended after 30 s, or that does not answer, is
killed, and its container with it.

Ctrl-C ends the waiting, not the stop: a workload that was asked to stop goes on
stopping by itself.

` + base.JSONHelp,
		Example: `  thv stop time
  thv stop --group work
  thv stop --all`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, names, err := s.Resolve(cmd.Context(), app)
			if err != nil {
				return err
			}
			p := render.NewProgress(app.Err, app.Env)
			defer p.Done()
			var stopped []*workload.Status
			err = app.Each(cmd.Context(), names, func(name string) error {
				err := m.Stop(cmd.Context(), name, p.Event)
				p.Done()
				switch {
				case errors.Is(err, workload.ErrNotRunning):
					fmt.Fprintf(app.Err, "%s is not running\n", name)
				case err == nil:
					fmt.Fprintf(app.Err, "%s stopped\n", name)
				default:
					return err
				}
				if !app.JSON {
					return nil
				}
				st, err := m.Status(cmd.Context(), name)
				if err == nil {
					stopped = append(stopped, st)
				}
				return err
			})
			return base.Show(app, s.One(), stopped, err)
		},
	}
	s.Flags(cmd)
	base.OutputFlag(cmd, app)
	return cmd
}

func newRm(app *base.App) *cobra.Command {
	s := &base.Selection{}
	cmd := &cobra.Command{
		Use:   "rm" + base.SelectionUsage,
		Short: "Stop and remove workloads",
		Long: `Remove ends workloads, as stop does, and deletes their configuration, logs and
secrets. A workload that is run again under the same name has the same URL.

After a Ctrl-C while it waits, the workload goes on stopping by itself and is not
removed.

` + base.JSONHelp + ` The state is
"removed" then.`,
		Example: `  thv rm time
  thv rm --group work`,
		Aliases: []string{"remove", "delete"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, names, err := s.Resolve(cmd.Context(), app)
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
			err = app.Each(cmd.Context(), names, func(name string) error {
				st := &workload.Status{Name: name}
				// One whose configuration is lost can be removed too.
				if spec, err := store.Get(name); err == nil {
					st = spec.Status()
					st.Created = store.Created(name)
				}
				err := m.Remove(cmd.Context(), name, p.Event)
				p.Done()
				if err != nil {
					return err
				}
				fmt.Fprintf(app.Err, "%s removed\n", name)
				st.State = workload.Removed
				removed = append(removed, st)
				return nil
			})
			return base.Show(app, s.One(), removed, err)
		},
	}
	s.Flags(cmd)
	base.OutputFlag(cmd, app)
	return cmd
}

func newStart(app *base.App) *cobra.Command {
	return startCommand(app, &cobra.Command{
		Use:   "start" + base.SelectionUsage,
		Short: "Start stopped workloads",
		Long: `Start runs workloads again as they were, waits until their servers have answered,
and prints their URLs.

` + base.JSONHelp,
		Example: `  thv start time
  thv start --all`,
	}, func(ctx context.Context, m *workload.Manager, name string, p *render.Progress) (*workload.Status, error) {
		st, err := m.Start(ctx, name, p.Event)
		if !errors.Is(err, workload.ErrAlreadyRunning) {
			return st, err
		}
		// It has a gateway, which is not to say that it serves.
		if st, err = m.Status(ctx, name); err == nil && !base.Serves(st) {
			return nil, fmt.Errorf("workload %q is %s; %s", name, st.State, base.Advice(st))
		}
		return st, err
	})
}

func newRestart(app *base.App) *cobra.Command {
	return startCommand(app, &cobra.Command{
		Use:   "restart" + base.SelectionUsage,
		Short: "Stop workloads and start them again",
		Long: `Restart ends workloads, as stop does, and starts them again, as start does.

After a Ctrl-C while it waits for the end, the workload goes on stopping by itself
and is not started again.

` + base.JSONHelp,
		Example: `  thv restart time
  thv restart --group work`,
	}, func(ctx context.Context, m *workload.Manager, name string, p *render.Progress) (*workload.Status, error) {
		return m.Restart(ctx, name, p.Event)
	})
}

// startCommand is what start and restart have in common.
func startCommand(app *base.App, cmd *cobra.Command, do func(context.Context, *workload.Manager, string, *render.Progress) (*workload.Status, error)) *cobra.Command {
	s := &base.Selection{}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if _, err := app.StartTimeout(); err != nil {
			return err
		}
		m, names, err := s.Resolve(cmd.Context(), app)
		if err != nil {
			return err
		}
		p := render.NewProgress(app.Err, app.Env)
		defer p.Done()
		var started []*workload.Status
		err = app.Each(cmd.Context(), names, func(name string) error {
			st, err := do(cmd.Context(), m, name, p)
			p.Done()
			if err != nil {
				return err
			}
			started = append(started, st)
			app.PrintState(st)
			if app.JSON {
				return nil // shown together, below
			}
			return app.PrintReady(st)
		})
		return base.Show(app, s.One(), started, err)
	}
	s.Flags(cmd)
	base.OutputFlag(cmd, app)
	return cmd
}
