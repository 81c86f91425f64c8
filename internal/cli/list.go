package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/workload"
)

func newList(app *App) *cobra.Command {
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
				return usage("--running and --all exclude each other")
			}
			m, err := app.Manager()
			if err != nil {
				return err
			}
			if group != "" {
				if err := groupExists(app, group); err != nil {
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
				return writeJSON(app.Out, shown)
			}
			if len(shown) == 0 && isTerminal(app.Out) {
				fmt.Fprintln(app.Err, "No workloads. Run one: thv run npx://@modelcontextprotocol/server-everything")
				return nil
			}
			rows := make([][]string, len(shown))
			for i, st := range shown {
				rows[i] = []string{st.Name, string(st.State), st.URL, st.Group, st.Source, ago(st.Created)}
			}
			return table(app.Out, []string{"NAME", "STATE", "URL", "GROUP", "SOURCE", "CREATED"}, rows, func(column int, cell string) string {
				if column == 1 {
					return app.paintState(cell)
				}
				return cell
			})
		},
	}
	cmd.Flags().StringVarP(&group, "group", "g", "", "Only workloads of a group")
	cmd.Flags().BoolVar(&running, "running", false, "Only workloads that are running")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "Stopped workloads too (this is the default)")
	outputFlag(cmd, app)
	return cmd
}

func newStatus(app *App) *cobra.Command {
	s := &selection{}
	cmd := &cobra.Command{
		Use:   "status NAME...",
		Short: "Show what workloads are doing, in full",
		Example: `  thv status time
  thv status --all -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, names, err := s.resolve(cmd.Context(), app)
			if err != nil {
				return err
			}
			all := []*workload.Status{}
			err = app.each(cmd.Context(), names, func(name string) error {
				st, err := m.Status(cmd.Context(), name)
				if err != nil {
					return err
				}
				all = append(all, st)
				if !app.JSON {
					if len(all) > 1 {
						fmt.Fprintln(app.Out)
					}
					return showStatus(app, st)
				}
				return nil
			})
			if !app.JSON {
				return err
			}
			var v any = all
			if len(s.names) == 1 && len(all) == 1 {
				v = all[0] // one name, one object
			}
			if len(all) > 0 || len(s.names) == 0 {
				if writeErr := writeJSON(app.Out, v); err == nil {
					err = writeErr
				}
			}
			return err
		},
	}
	s.flags(cmd)
	outputFlag(cmd, app)
	return cmd
}

// exposure says what it means that a server is exposed.
func exposure(st *workload.Status) string {
	return "programs on this machine can reach the server at " + st.Exposed + ", past the gateway; have it listen on 127.0.0.1 in its container"
}

func showStatus(app *App, st *workload.Status) error {
	started := ""
	if st.Started != nil {
		started = st.Started.Format(time.RFC3339)
	}
	rows := [][2]string{
		{"Name", st.Name}, {"State", string(st.State)}, {"Reason", st.Reason}, {"URL", st.URL},
		{"Server", oneLine(st.Server)}, {"Group", st.Group}, {"Source", st.Source}, {"Image", st.Image},
		{"Transport", string(st.Transport)}, {"Proxy mode", st.ProxyMode},
		{"Created", st.Created.Format(time.RFC3339)}, {"Started", started},
	}
	if st.State == workload.Running || st.State == workload.Degraded {
		rows = append(rows, [2]string{"Sessions", strconv.Itoa(st.Sessions)})
	}
	if st.Restarts > 0 {
		rows = append(rows, [2]string{"Restarts", strconv.Itoa(st.Restarts)})
	}
	if st.Exposed != "" {
		rows = append(rows, [2]string{"Exposed", exposure(st)})
	}
	if st.PID != 0 {
		rows = append(rows, [2]string{"Gateway process", strconv.Itoa(st.PID)})
	}
	for _, row := range rows {
		if row[1] == "" {
			continue
		}
		value := printable(row[1])
		if row[0] == "State" {
			value = app.paintState(value)
		}
		if _, err := fmt.Fprintf(app.Out, "%-16s %s\n", row[0]+":", value); err != nil {
			return err
		}
	}
	return nil
}
