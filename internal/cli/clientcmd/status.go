package clientcmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/clientconfig"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

func newStatus(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which clients are installed and set up, and their entries",
		Long: `Status shows each client that is installed or set up, and of those that are set up each
entry beside the workload of its name:

  ok        the entry points to the workload
  stale     thv wrote the entry, and it does not point to a workload any more
  missing   the entry is not in the file; thv run or thv start writes it again
  not ours  the name has an entry that thv did not write, or that was changed

thv client setup NAME mends entries that are stale or missing.`,
		Example: `  thv client status
  thv client status -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runStatus(cmd.Context(), app) },
	}
	base.OutputFlag(cmd, app)
	return cmd
}

func runStatus(ctx context.Context, app *base.App) error {
	setup, err := app.Clients()
	if err != nil {
		return err
	}
	workloads, err := workloads(ctx, app, true)
	if err != nil {
		return err
	}
	all, err := setup.Status(workloads)
	if err != nil {
		return err
	}
	shown := []clientconfig.ClientStatus{}
	var rows [][]string
	for _, c := range all {
		if !c.Installed && !c.SetUp {
			continue
		}
		shown = append(shown, c)
		rows = append(rows, statusRows(c)...)
	}
	if app.JSON {
		return render.JSON(app.Out, shown)
	}
	if len(rows) == 0 {
		fmt.Fprintln(app.Err, "no client is installed or set up; `thv client list` shows which there are")
		return nil
	}
	return render.Table(app.Out, []string{"NAME", "INSTALLED", "SET UP", "WORKLOAD", "ENTRY", "STATE"}, rows, nil)
}

// statusRows returns a row for each entry of a client, at least one.
func statusRows(c clientconfig.ClientStatus) [][]string {
	setUp := yes(c.SetUp)
	if c.Group != "" {
		setUp += " (" + c.Group + ")"
	}
	head := []string{c.Name, yes(c.Installed), setUp}
	if c.Problem != "" {
		return [][]string{append(head, "", plaintext.Line(c.File+": "+c.Problem), "")}
	}
	if len(c.Entries) == 0 {
		return [][]string{append(head, "", "", "")}
	}
	var rows [][]string
	for _, e := range c.Entries {
		entry := string(e.State)
		if e.Address != "" && e.State != clientconfig.Good {
			entry += ": " + plaintext.Line(e.Address)
		}
		state := e.Workload
		if state == "" {
			state = "removed"
		}
		rows = append(rows, append(append([]string{}, head...), e.Name, entry, state))
	}
	return rows
}
