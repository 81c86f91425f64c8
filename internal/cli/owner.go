package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/owner"
)

// newOwner returns the hidden command that manager.Manager starts.
func newOwner(app *base.App) *cobra.Command {
	return &cobra.Command{
		Use:    "owner NAME",
		Short:  "Own a running workload (started by thv itself)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			handed, stdin, err := manager.ReadHandover(os.Stdin)
			if err == nil {
				err = app.Receive(handed)
			}
			if err != nil {
				return err
			}
			cfg, err := app.OwnerConfig(args[0])
			if err != nil {
				return err
			}
			defer owner.FitProcess()()
			// The process that started this one may have exited when progress is written.
			signal.Ignore(syscall.SIGPIPE)
			return owner.Detached(cmd.Context(), cfg, stdin, os.Stdout)
		},
	}
}
