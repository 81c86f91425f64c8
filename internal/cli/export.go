package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/settings"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func newExport(app *App) *cobra.Command {
	return &cobra.Command{
		Use:   "export NAME [FILE]",
		Short: "Write a workload's configuration, for run --from-config",
		Long: `Export writes everything a workload is, as JSON, to a file or to standard output.
Secrets are in it as references, never as values.`,
		Example: `  thv export time time.json
  thv run --from-config time.json --name time-2`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := workload.ValidName(args[0]); err != nil {
				return asUsage(err)
			}
			store, err := app.Store()
			if err != nil {
				return err
			}
			spec, err := store.Get(args[0])
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return writeJSON(app.Out, spec)
			}
			b, err := json.MarshalIndent(spec, "", "  ")
			if err != nil {
				return err
			}
			if err := settings.WriteAtomic(args[1], append(b, '\n'), 0o600); err != nil {
				return err
			}
			fmt.Fprintf(app.Err, "%s written to %s\n", args[0], args[1])
			return nil
		},
	}
}
