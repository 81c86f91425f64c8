package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// Set by the linker (see the Makefile).
var (
	version   = "dev"
	commit    = "unknown"
	buildDate = "unknown"
)

func newVersion(app *App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Show the version", Args: cobra.NoArgs, Example: "  thv version -o json",
		RunE: func(*cobra.Command, []string) error {
			if app.JSON {
				return writeJSON(app.Out, map[string]string{
					"version": version, "commit": commit, "buildDate": buildDate,
					"goVersion": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			fmt.Fprintf(app.Out, "thv %s (%s, built %s, %s, %s/%s)\n", version, commit, buildDate, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
	outputFlag(cmd, app)
	return cmd
}
