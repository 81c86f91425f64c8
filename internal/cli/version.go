package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/buildinfo"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
)

func newVersion(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Show the version", Args: cobra.NoArgs, Example: "  thv version -o json",
		RunE: func(*cobra.Command, []string) error { return runVersion(app) },
	}
	base.OutputFlag(cmd, app)
	return cmd
}

func runVersion(app *base.App) error {
	if app.JSON {
		b := buildinfo.Get()
		return render.JSON(app.Out, map[string]string{
			"version": b.Version, "commit": b.Commit, "buildDate": b.BuildDate,
			"goVersion": b.GoVersion, "platform": b.Platform,
		})
	}
	_, err := fmt.Fprintf(app.Out, "thv %s\n", versionLine())
	return err
}

// versionLine is the output of `thv version` and `thv --version` after the tool's name.
func versionLine() string {
	b := buildinfo.Get()
	return fmt.Sprintf("%s (%s, built %s, %s, %s)", b.Version, b.Commit, b.BuildDate, b.GoVersion, b.Platform)
}
