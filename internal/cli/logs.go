package cli

import (
	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/workload"
)

func newLogs(app *App) *cobra.Command {
	var opt workload.LogOptions
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Show what a server has logged",
		Long: `Logs shows what the server wrote to its standard error, and for HTTP servers also
to its standard output. With --proxy it shows the gateway's own log.`,
		Example: `  thv logs time --tail 20
  thv logs -f time
  thv logs --proxy time`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opt.Tail < 0 {
				return usage("--tail must not be negative")
			}
			if err := workload.ValidName(args[0]); err != nil {
				return asUsage(err)
			}
			m, err := app.Manager()
			if err != nil {
				return err
			}
			w := app.Out
			if isTerminal(w) {
				w = &printableWriter{w}
			}
			return m.Logs(cmd.Context(), args[0], opt, w)
		},
	}
	cmd.Flags().BoolVarP(&opt.Follow, "follow", "f", false, "Go on showing what is logged")
	cmd.Flags().BoolVar(&opt.Proxy, "proxy", false, "The gateway's log instead of the server's")
	cmd.Flags().IntVar(&opt.Tail, "tail", 0, "Only the last lines (0: all)")
	return cmd
}
