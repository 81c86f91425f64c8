package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/toolset"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func newToolsDiff(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff NAME",
		Short: "Show how the tools of a workload have changed",
		Long: `Diff compares the tools of a running workload's server with what is remembered of them:
names, descriptions and input schemas, as they were first seen or last accepted. Of
schemas only a hash is remembered.`,
		Example: `  thv tools diff time
  thv tools diff time -o json | jq -r '.[].tool'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runToolsDiff(cmd.Context(), app, args[0]) },
	}
	base.OutputFlag(cmd, app)
	return cmd
}

func runToolsDiff(ctx context.Context, app *base.App, name string) error {
	m, err := serving(ctx, app, name)
	if err != nil {
		return err
	}
	list, err := m.Tools(ctx, name)
	if err != nil {
		return err
	}
	if app.JSON {
		return render.JSON(app.Out, append([]toolset.Change{}, list.Changes...)) // never null
	}
	if len(list.Changes) == 0 {
		fmt.Fprintf(app.Err, "The tools of %s have not changed\n", name)
	}
	return showChanges(app, list.Changes)
}

// showChanges writes the changes of tools with the descriptions that differ.
func showChanges(app *base.App, changes []toolset.Change) error {
	for _, c := range changes {
		text := plaintext.Line(c.String())
		if c.Before != "" {
			text += "\n  - " + plaintext.Line(c.Before)
		}
		if c.After != "" {
			text += "\n  + " + plaintext.Line(c.After)
		}
		if _, err := fmt.Fprintln(app.Out, text); err != nil {
			return err
		}
	}
	return nil
}

func newToolsAccept(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "accept NAME",
		Short: "Remember the tools of a workload as they are now",
		Long: `Accept remembers the tools of a running workload's server as they are now, and prints what
had changed. With --pin-tools clients see these tools from then on, when they list the
tools again.`,
		Example: `  thv tools accept time`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runToolsAccept(cmd.Context(), app, args[0]) },
	}
	base.OutputFlag(cmd, app)
	return cmd
}

func runToolsAccept(ctx context.Context, app *base.App, name string) error {
	m, err := serving(ctx, app, name)
	if err != nil {
		return err
	}
	changes, err := m.AcceptTools(ctx, name)
	if err != nil {
		return err
	}
	if app.JSON {
		return render.JSON(app.Out, append([]toolset.Change{}, changes...)) // never null
	}
	fmt.Fprintf(app.Err, "The tools of %s are accepted, with %s\n", name, render.Counted(len(changes), "change"))
	return showChanges(app, changes)
}

func newToolsPin(app *base.App) *cobra.Command {
	var off bool
	cmd := &cobra.Command{
		Use:   "pin NAME",
		Short: "Hide tools of a workload that change",
		Long: `Pin sets --pin-tools of a workload: tools that differ from what is remembered of them, and
new ones, are hidden from clients until thv tools accept NAME. It takes effect when the
workload is started again.`,
		Example: `  thv tools pin time
  thv tools pin time --off`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runToolsPin(cmd.Context(), app, args[0], !off)
		},
	}
	cmd.Flags().BoolVar(&off, "off", false, "Show changed tools again")
	return cmd
}

func runToolsPin(ctx context.Context, app *base.App, name string, pin bool) error {
	if err := workload.ValidName(name); err != nil {
		return base.AsUsage(err)
	}
	m, err := app.Manager()
	if err != nil {
		return err
	}
	if err := m.PinTools(name, pin); err != nil {
		return err
	}
	st, err := m.Status(ctx, name)
	if err != nil {
		return err
	}
	now, then := "pinned", "when it is started"
	if !pin {
		now = "no longer pinned"
	}
	if base.Serves(st) {
		then = "after `thv restart " + name + "`"
	}
	fmt.Fprintf(app.Err, "The tools of %s are %s %s\n", name, now, then)
	return nil
}
