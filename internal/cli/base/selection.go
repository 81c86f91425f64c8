package base

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// SelectionUsage is the selection in the usage line of a command.
const SelectionUsage = " {NAME... | --all | --group GROUP}"

// JSONHelp describes -o json in the help of the commands that change workloads.
const JSONHelp = `With -o json it prints the workloads as list -o json does: one object for one NAME, else
an array. What failed is left out; the reason is on standard error.`

// Selection is the workloads that a command line selects: names, --all, or --group.
type Selection struct {
	names []string
	All   bool
	Group string
	// Strays makes --all include gateways without state, which list does not show.
	Strays bool
}

// Flags adds --all and --group to cmd, and takes the names from its arguments.
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

// Resolve returns the names of the selected workloads, and their Manager. An unknown group
// is an error; an empty one is not.
func (s *Selection) Resolve(ctx context.Context, app *App) (m *manager.Manager, names []string, err error) {
	if m, err = app.Manager(); err != nil {
		return nil, nil, err
	}
	if len(s.names) > 0 {
		return m, s.names, nil
	}
	if s.Group != "" {
		if err := GroupExists(app, s.Group); err != nil {
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
	if s.All && s.Strays {
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

// Each calls do for each name and writes the errors to standard error as they occur. It
// goes on after an error, but not after ctx ends. The error it returns is Reported, or
// that of ctx when no written error reports the interruption.
func Each(ctx context.Context, a *App, names []string, do func(name string) error) error {
	failed := 0
	var last error
	for _, name := range names {
		err := do(name)
		ended := ctx.Err()
		reported := errors.Is(err, manager.ErrInterrupted)
		if err != nil && (reported || ended == nil || !errors.Is(err, ended)) {
			fmt.Fprintln(a.Err, Sentence(err))
			failed, last = failed+1, err
		}
		switch {
		case reported:
			return &Reported{ended}
		case ended != nil:
			return ended
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

// One reports whether a single workload was named.
func (s *Selection) One() bool { return len(s.names) == 1 }

// Show writes done with -o json, and nothing without it. It returns err, or the error of
// writing.
func Show[T any](app *App, one bool, done []T, err error) error {
	if !app.JSON {
		return err
	}
	return Write(app, one, done, err)
}

// Write writes done as JSON: as one object when one was named (nothing when it failed),
// else as an array. It returns err, or the error of writing.
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
