package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func newTools(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tools NAME",
		Short: "List all tools of a running workload, and what they cost",
		Long: `Tools lists every tool of a workload's server: its own name, the name that clients see
(run --tools-override), whether clients see it (run --tools), and about how many tokens
it costs in a client's context. Clients put the list of tools into their context, mostly
with every request.

The number of tokens is an estimate: a fourth of the bytes of the tool's JSON, with its
description and its schema. Tokenizers and clients differ. The totals, of the tools that
clients see and of all, are on standard error, and in JSON .shown and .all.

A tool is hidden for "filter" when --tools does not name it, and for "ambiguous name" when
an override gives its name to another tool, and for "pin" when it has changed and the
workload has --pin-tools. thv mcp tools NAME shows what clients see.

Names, descriptions and input schemas of the tools are remembered when they are first
seen. list, status and tools diff show changes.`,
		Example: `  thv tools time
  thv tools time -o json | jq -r '.tools[] | select(.shown) | .visibleName'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runTools(cmd.Context(), app, args[0]) },
	}
	base.OutputFlag(cmd, app)
	cmd.AddCommand(newToolsDiff(app), newToolsAccept(app), newToolsPin(app))
	return cmd
}

// serving returns the Manager if the server of a workload can be reached.
func serving(ctx context.Context, app *base.App, name string) (*manager.Manager, error) {
	if err := workload.ValidName(name); err != nil {
		return nil, base.AsUsage(err)
	}
	m, err := app.Manager()
	if err != nil {
		return nil, err
	}
	st, err := m.Status(ctx, name)
	if err != nil {
		return nil, err
	}
	if !base.Serves(st) {
		return nil, fmt.Errorf("workload %q %s; %s", name, base.Condition(st), base.Advice(st))
	}
	return m, nil
}

func runTools(ctx context.Context, app *base.App, name string) error {
	m, err := serving(ctx, app, name)
	if err != nil {
		return err
	}
	list, err := m.Tools(ctx, name)
	if err != nil {
		return err
	}
	if app.JSON {
		return render.JSON(app.Out, list)
	}
	rows := make([][]string, len(list.Tools))
	for i, t := range list.Tools {
		shown := "yes"
		if !t.Shown {
			shown = "no (" + t.Hidden + ")"
		}
		rows[i] = []string{t.Name, t.VisibleName, shown, strconv.Itoa(t.Tokens), render.FirstLine(t.Description)}
	}
	if err := render.Table(app.Out, []string{"TOOL", "CLIENTS SEE", "SHOWN", "TOKENS", "DESCRIPTION"}, rows, nil, 2, 3); err != nil {
		return err
	}
	fmt.Fprintf(app.Err, "%d of %s shown: about %d of %d tokens\n", list.Shown.Tools, render.Counted(list.All.Tools, "tool"), list.Shown.Tokens, list.All.Tokens)
	return nil
}
