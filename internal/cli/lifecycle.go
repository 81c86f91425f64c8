package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/workload"
)

func newStop(app *App) *cobra.Command {
	s := &selection{strays: true}
	cmd := &cobra.Command{
		Use:   "stop" + selected,
		Short: "Stop workloads",
		Long: `Stop ends workloads and their containers. They stay known and can be started again;
their URLs do not change. That goes for one that is still starting too; the command
that starts it then fails.

No new call is taken. Those that are running have 10 s to end, and then the server
has 10 s. A gateway that has not ended after 30 s, or that does not answer, is
killed, and its container with it.

Ctrl-C ends the waiting, not the stop: a workload that was asked to stop goes on
stopping by itself.

` + asListed,
		Example: `  thv stop time
  thv stop --group work
  thv stop --all`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, names, err := s.resolve(cmd.Context(), app)
			if err != nil {
				return err
			}
			p := newProgress(app.Err)
			defer p.done()
			var stopped []*workload.Status
			err = app.each(cmd.Context(), names, func(name string) error {
				err := m.Stop(cmd.Context(), name, p.event)
				p.done()
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
			return show(app, s.one(), stopped, err)
		},
	}
	s.flags(cmd)
	outputFlag(cmd, app)
	return cmd
}

func newRm(app *App) *cobra.Command {
	s := &selection{strays: true}
	cmd := &cobra.Command{
		Use:   "rm" + selected,
		Short: "Stop and remove workloads",
		Long: `Remove ends workloads, as stop does, and deletes their configuration, logs and
secrets. A workload that is run again under the same name has the same URL.

After a Ctrl-C while it waits, the workload goes on stopping by itself and is not
removed.

` + asListed + ` The state is
"removed" then.`,
		Example: `  thv rm time
  thv rm --group work`,
		Aliases: []string{"remove", "delete"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, names, err := s.resolve(cmd.Context(), app)
			if err != nil {
				return err
			}
			store, err := app.Store()
			if err != nil {
				return err
			}
			p := newProgress(app.Err)
			defer p.done()
			var removed []*workload.Status
			err = app.each(cmd.Context(), names, func(name string) error {
				st := &workload.Status{Name: name}
				// One whose configuration is lost can be removed too.
				if spec, err := store.Get(name); err == nil {
					st = spec.Status()
					st.Created = store.Created(name)
				}
				err := m.Remove(cmd.Context(), name, p.event)
				p.done()
				if err != nil {
					return err
				}
				fmt.Fprintf(app.Err, "%s removed\n", name)
				st.State = workload.Removed
				removed = append(removed, st)
				return nil
			})
			return show(app, s.one(), removed, err)
		},
	}
	s.flags(cmd)
	outputFlag(cmd, app)
	return cmd
}

func newStart(app *App) *cobra.Command {
	return startCommand(app, &cobra.Command{
		Use:   "start" + selected,
		Short: "Start stopped workloads",
		Long: `Start runs workloads again as they were, waits until their servers have answered,
and prints their URLs.

` + asListed,
		Example: `  thv start time
  thv start --all`,
	}, func(ctx context.Context, m *workload.Manager, name string, p *progress) (*workload.Status, error) {
		st, err := m.Start(ctx, name, p.event)
		if !errors.Is(err, workload.ErrAlreadyRunning) {
			return st, err
		}
		// It has a gateway, which is not to say that it serves.
		if st, err = m.Status(ctx, name); err == nil && !serves(st) {
			return nil, fmt.Errorf("workload %q is %s; %s", name, st.State, advice(st))
		}
		return st, err
	})
}

// serves tells whether a client can connect to a workload.
func serves(st *workload.Status) bool {
	return st.State == workload.Running || st.State == workload.Degraded
}

// advice is how a workload that does not serve comes to do so, from the state that
// it is in.
func advice(st *workload.Status) string {
	switch st.State {
	case workload.Starting:
		return "wait until `thv status " + st.Name + "` says that it is running"
	case workload.Stopping:
		return "when it has stopped, start it with `thv start " + st.Name + "`"
	case workload.Unresponsive:
		return "restart it with `thv restart " + st.Name + "`"
	}
	if lost(st) {
		return st.Reason
	}
	return "start it with `thv start " + st.Name + "`"
}

// lost tells whether a workload has no configuration that can be read; its reason then
// says what is left to do.
func lost(st *workload.Status) bool { return st.State == workload.Failed && st.Port == 0 }

func newRestart(app *App) *cobra.Command {
	return startCommand(app, &cobra.Command{
		Use:   "restart" + selected,
		Short: "Stop workloads and start them again",
		Long: `Restart ends workloads, as stop does, and starts them again, as start does.

After a Ctrl-C while it waits for the end, the workload goes on stopping by itself
and is not started again.

` + asListed,
		Example: `  thv restart time
  thv restart --group work`,
	}, func(ctx context.Context, m *workload.Manager, name string, p *progress) (*workload.Status, error) {
		return m.Restart(ctx, name, p.event)
	})
}

// startCommand is what start and restart have in common.
func startCommand(app *App, cmd *cobra.Command, do func(context.Context, *workload.Manager, string, *progress) (*workload.Status, error)) *cobra.Command {
	s := &selection{}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if _, err := app.startTimeout(); err != nil {
			return err
		}
		m, names, err := s.resolve(cmd.Context(), app)
		if err != nil {
			return err
		}
		p := newProgress(app.Err)
		defer p.done()
		var started []*workload.Status
		err = app.each(cmd.Context(), names, func(name string) error {
			st, err := do(cmd.Context(), m, name, p)
			p.done()
			if err != nil {
				return err
			}
			started = append(started, st)
			app.sayState(st)
			if app.JSON {
				return nil // shown together, below
			}
			return app.showReady(st)
		})
		return show(app, s.one(), started, err)
	}
	s.flags(cmd)
	outputFlag(cmd, app)
	return cmd
}
