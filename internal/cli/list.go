package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func newList(app *base.App) *cobra.Command {
	var group string
	var running, all bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List workloads and what they are doing now",
		Long: `List shows every workload, stopped ones too, with the state it is in at this
moment: running means that its server has answered, degraded that it is gone or
failing and is being retried, failed that it ended by itself, unresponsive that
its gateway does not answer.`,
		Example: `  thv list
  thv list --running --group work
  thv list -o json | jq -r '.[].url'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if running && all {
				return base.Usage("--running and --all exclude each other")
			}
			m, err := app.Manager()
			if err != nil {
				return err
			}
			if group != "" {
				if err := app.GroupExists(group); err != nil {
					return err
				}
			}
			every, err := m.List(cmd.Context())
			if err != nil {
				return err
			}
			shown := []*workload.Status{} // never null in JSON
			for _, st := range every {
				if (group == "" || st.Group == group) && (!running || st.State == workload.Running) {
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
			rows := make([][]string, len(shown))
			for i, st := range shown {
				rows[i] = []string{st.Name, string(st.State), st.URL, st.Group, st.Source, render.Ago(st.Created)}
			}
			return render.Table(app.Out, []string{"NAME", "STATE", "URL", "GROUP", "SOURCE", "CREATED"}, rows, func(column int, cell string) string {
				if column == 1 {
					return render.PaintState(app.Out, app.Env, cell)
				}
				return cell
			}, 1, 2)
		},
	}
	cmd.Flags().StringVarP(&group, "group", "g", "", "Only workloads of a group")
	cmd.Flags().BoolVar(&running, "running", false, "Only workloads that are running")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "Stopped workloads too (this is the default)")
	base.OutputFlag(cmd, app)
	return cmd
}
