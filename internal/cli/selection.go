package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// selected is how the usage of a command shows its selection.
const selected = " {NAME... | --all | --group GROUP}"

// asListed is what the help of a command says of -o json that changes workloads.
const asListed = `With -o json it prints what list -o json shows of them then: one object for one NAME,
else an array. What failed is not in it; the reason is on standard error.`

// selection is which workloads a command is about: names, --all, or --group.
type selection struct {
	names []string
	all   bool
	group string
	// strays has --all include gateways without state, which list does not show.
	strays bool
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
	if s.all && s.strays {
		strays, err := m.Strays(ctx, nil)
		if err != nil {
			return nil, nil, err
		}
		for _, stray := range strays {
			names = append(names, stray.Name)
		}
	}
	slices.Sort(names)
	return m, slices.Compact(names), nil
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

// one tells whether a single workload was named.
func (s *selection) one() bool { return len(s.names) == 1 }

// show is what a command says with -o json, and nothing without it: done is what it was
// done to, and err what went wrong meanwhile.
func show[T any](app *App, one bool, done []T, err error) error {
	if !app.JSON {
		return err
	}
	return write(app, one, done, err)
}

// write writes one object where one thing was named, if it was done, else an array.
func write[T any](app *App, one bool, done []T, err error) error {
	var v any = append([]T{}, done...) // never null
	switch {
	case one && len(done) == 0:
		return err
	case one:
		v = done[0]
	}
	if writeErr := writeJSON(app.Out, v); err == nil {
		err = writeErr
	}
	return err
}
