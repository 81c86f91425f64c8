// Package command is the command line of thv-operator.
package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/buildinfo"
)

// Env is what a command uses of its process.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs the command line and returns the exit code: 0, or 1 after an error.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	env := Env{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	cmd := New(env)
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(env.Err, "thv-operator:", err)
		return 1
	}
	return 0
}

// New returns the root command.
func New(env Env) *cobra.Command {
	root := &cobra.Command{
		Use:           "thv-operator",
		Short:         "Run MCP tool servers on a Kubernetes cluster",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	root.AddCommand(newRun(env), newConvert(env), newVersion(env))
	return root
}

func newVersion(env Env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of the program",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			info := buildinfo.Get()
			_, err := fmt.Fprintf(env.Out, "thv-operator %s (%s, %s, %s)\n", info.Version, info.Commit, info.GoVersion, info.Platform)
			return err
		},
	}
}
