package base

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// selected is how the usage of a command shows its selection.
const SelectionUsage = " {NAME... | --all | --group GROUP}"

// asListed is what the help of a command says of -o json that changes workloads.
const JSONHelp = `With -o json it prints what list -o json shows of them then: one object for one NAME,
else an array. What failed is not in it; the reason is on standard error.`

// selection is which workloads a command is about: names, --all, or --group.
type Selection struct {
	names []string
	All   bool
	Group string
}

// flags adds --all and --group, and takes the names.
func (s *Selection) Flags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&s.All, "all", "a", false, "All workloads")
	cmd.Flags().StringVarP(&s.Group, "group", "g", "", "All workloads of a group")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		s.names = args
		given := 0
		for _, is := range []bool{len(args) > 0, s.All, s.Group != ""} {
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
func (s *Selection) Resolve(ctx context.Context, app *App) (m *workload.Manager, names []string, err error) {
	if m, err = app.Manager(); err != nil {
		return nil, nil, err
	}
	if len(s.names) > 0 {
		return m, s.names, nil
	}
	if s.Group != "" {
		if err := app.GroupExists(s.Group); err != nil {
			return nil, nil, err
		}
	}
	all, err := m.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, st := range all {
		if s.All || st.Group == s.Group {
			names = append(names, st.Name)
		}
	}
	return m, names, nil
}

// each does one thing to each name and goes on when one fails. Faults are shown
// as they come. It stops early only when ctx ends, and returns that unless the
// fault it has shown says so.
func (a *App) Each(ctx context.Context, names []string, do func(name string) error) error {
	failed := 0
	var last error
	for _, name := range names {
		err := do(name)
		interrupted := ctx.Err()
		says := errors.Is(err, workload.ErrInterrupted)
		if err != nil && (says || interrupted == nil || !errors.Is(err, interrupted)) {
			fmt.Fprintln(a.Err, Sentence(err))
			failed, last = failed+1, err
		}
		switch {
		case says:
			return &Reported{interrupted}
		case interrupted != nil:
			return interrupted
		}
	}
	switch {
	case failed == 0:
		return nil
	case len(names) == 1:
		return &Reported{last}
	}
	return &Reported{fmt.Errorf("%d of %d failed", failed, len(names))}
}

// one tells whether a single workload was named.
func (s *Selection) One() bool { return len(s.names) == 1 }

// show is what a command says with -o json, and nothing without it: done is what it was
// done to, and err what went wrong meanwhile.
func Show[T any](app *App, one bool, done []T, err error) error {
	if !app.JSON {
		return err
	}
	return Write(app, one, done, err)
}

// write writes one object where one thing was named, if it was done, else an array.
func Write[T any](app *App, one bool, done []T, err error) error {
	var v any = append([]T{}, done...) // never null
	switch {
	case one && len(done) == 0:
		return err
	case one:
		v = done[0]
	}
	if writeErr := render.JSON(app.Out, v); err == nil {
		err = writeErr
	}
	return err
}
