package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// selection is which workloads a command is about: names, --all, or --group.
type selection struct {
	names []string
	all   bool
	group string
}

// flags adds --all and --group, and takes the names.
func (s *selection) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&s.all, "all", "a", false, "All workloads")
	cmd.Flags().StringVarP(&s.group, "group", "g", "", "All workloads of a group")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		s.names = args
		given := 0
		for _, is := range []bool{len(args) > 0, s.all, s.group != ""} {
			if is {
				given++
			}
		}
		switch given {
		case 0:
			return errors.New("name a workload, or use --all or --group")
		case 1:
			for _, name := range args {
				if err := workload.ValidName(name); err != nil {
					return err
				}
			}
			return nil
		default:
			return errors.New("names, --all and --group exclude each other")
		}
	}
}

// resolve lists the names, of workloads that m manages. An unknown group is an
// error; an empty one is not.
func (s *selection) resolve(ctx context.Context, app *App) (m *workload.Manager, names []string, err error) {
	if m, err = app.Manager(); err != nil {
		return nil, nil, err
	}
	if len(s.names) > 0 {
		return m, s.names, nil
	}
	if s.group != "" {
		if err := groupExists(app, s.group); err != nil {
			return nil, nil, err
		}
	}
	all, err := m.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, st := range all {
		if s.all || st.Group == s.group {
			names = append(names, st.Name)
		}
	}
	return m, names, nil
}

// each does one thing to each name and goes on when one fails. Faults are shown
// as they come. It stops early only when ctx ends, and returns that unless the
// fault it has shown says so.
func (a *App) each(ctx context.Context, names []string, do func(name string) error) error {
	failed := 0
	var last error
	for _, name := range names {
		err := do(name)
		interrupted := ctx.Err()
		says := errors.Is(err, workload.ErrInterrupted)
		if err != nil && (says || interrupted == nil || !errors.Is(err, interrupted)) {
			fmt.Fprintln(a.Err, sentence(err))
			failed, last = failed+1, err
		}
		switch {
		case says:
			return &errReported{interrupted}
		case interrupted != nil:
			return interrupted
		}
	}
	switch {
	case failed == 0:
		return nil
	case len(names) == 1:
		return &errReported{last}
	}
	return &errReported{fmt.Errorf("%d of %d failed", failed, len(names))}
}

func newStop(app *App) *cobra.Command {
	s := &selection{}
	cmd := &cobra.Command{
		Use:   "stop NAME...",
		Short: "Stop workloads",
		Long: `Stop ends workloads and their containers. They stay known and can be started again;
their URLs do not change. That goes for one that is still starting too; the command
that starts it then fails.

No new call is taken. Those that are running have 10 s to end, and then the server
has 10 s. A gateway that has not ended after 30 s, or that does not answer, is
killed, and its container with it.

Ctrl-C ends the waiting, not the stop: a workload that was asked to stop goes on
stopping by itself.`,
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
			return app.each(cmd.Context(), names, func(name string) error {
				err := m.Stop(cmd.Context(), name, p.event)
				p.done()
				if errors.Is(err, workload.ErrNotRunning) {
					fmt.Fprintf(app.Err, "%s is not running\n", name)
					return nil
				}
				if err == nil {
					fmt.Fprintf(app.Err, "%s stopped\n", name)
				}
				return err
			})
		},
	}
	s.flags(cmd)
	return cmd
}

func newRm(app *App) *cobra.Command {
	s := &selection{}
	cmd := &cobra.Command{
		Use:   "rm NAME...",
		Short: "Stop and remove workloads",
		Long: `Remove ends workloads, as stop does, and deletes their configuration, logs and
secrets. A workload that is run again under the same name has the same URL.

After a Ctrl-C while it waits, the workload goes on stopping by itself and is not
removed.`,
		Example: `  thv rm time
  thv rm --group work`,
		Aliases: []string{"remove", "delete"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, names, err := s.resolve(cmd.Context(), app)
			if err != nil {
				return err
			}
			p := newProgress(app.Err)
			defer p.done()
			return app.each(cmd.Context(), names, func(name string) error {
				err := m.Remove(cmd.Context(), name, p.event)
				p.done()
				if err != nil {
					return err
				}
				fmt.Fprintf(app.Err, "%s removed\n", name)
				return nil
			})
		},
	}
	s.flags(cmd)
	return cmd
}

func newStart(app *App) *cobra.Command {
	return startCommand(app, &cobra.Command{
		Use:   "start NAME...",
		Short: "Start stopped workloads",
		Long:  "Start runs workloads again as they were, waits until their servers have answered,\nand prints their URLs.",
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
		Use:   "restart NAME...",
		Short: "Stop workloads and start them again",
		Long: `Restart ends workloads, as stop does, and starts them again, as start does.

After a Ctrl-C while it waits for the end, the workload goes on stopping by itself
and is not started again.`,
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
		started := []*workload.Status{} // never null in JSON
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
		if app.JSON {
			return errors.Join(err, writeJSON(app.Out, started))
		}
		return err
	}
	s.flags(cmd)
	outputFlag(cmd, app)
	return cmd
}
