package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/workload"
)

type listOptions struct {
	app     *base.App
	group   string // "" is every group
	running bool   // only those that run
}

func newList(app *base.App) *cobra.Command {
	o := &listOptions{app: app}
	var all bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List workloads and their states",
		Long: `List shows every workload, stopped ones too, with its state at this moment: running
means that its server responds, degraded that it is gone or failing and is being
retried, failed that it ended by itself, unresponsive that its gateway does not
respond. The column TOKENS OF, if any workload requires access tokens, has their issuer.`,
		Example: `  thv list
  thv list --running --group work
  thv list -o json | jq -r '.[].url'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.running && all {
				return base.Usage("--running and --all exclude each other")
			}
			return runList(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVarP(&o.group, "group", "g", "", "Only workloads of a group")
	cmd.Flags().BoolVar(&o.running, "running", false, "Only workloads that are running")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "Stopped workloads too (this is the default)")
	base.OutputFlag(cmd, app)
	return cmd
}

func runList(ctx context.Context, o *listOptions) error {
	app := o.app
	m, err := app.Manager()
	if err != nil {
		return err
	}
	if o.group != "" {
		if err := base.GroupExists(app, o.group); err != nil {
			return err
		}
	}
	every, err := m.List(ctx)
	if err != nil {
		return err
	}
	shown := []*workload.Status{} // never null in JSON
	for _, st := range every {
		if (o.group == "" || st.Group == o.group) && (!o.running || st.State == workload.Running) {
			shown = append(shown, st)
		}
	}
	if app.JSON {
		return render.JSON(app.Out, shown)
	}
	if len(shown) == 0 && render.IsTerminal(app.Out) {
		fmt.Fprintln(app.Err, "No workloads. Run one: thv run npx://@modelcontextprotocol/server-everything")
		return nil
	}
	columns := []string{"NAME", "STATE", "URL", "GROUP", "SOURCE", "CREATED"}
	tokens := slices.ContainsFunc(shown, func(st *workload.Status) bool { return st.Issuer != "" })
	if tokens {
		columns = append(columns, "TOKENS OF")
	}
	rows := make([][]string, len(shown))
	for i, st := range shown {
		rows[i] = []string{st.Name, string(st.State), st.URL, st.Group, st.Source, render.Ago(st.Created)}
		if tokens {
			rows[i] = append(rows[i], st.Issuer)
		}
	}
	err = render.Table(app.Out, columns, rows, func(column int, cell string) string {
		if column == 1 {
			return render.PaintState(app.Out, app.Env, cell)
		}
		return cell
	}, 1, 2)
	for _, st := range shown {
		if st.ToolChanges > 0 {
			fmt.Fprintf(app.Err, "Note: tools of %s have changed (%d); `thv tools diff %s` shows them\n", st.Name, st.ToolChanges, st.Name)
		}
	}
	return err
}
