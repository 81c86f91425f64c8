// Package cli implements the command `thv`: the root and the commands on workloads, one
// file for each. The larger groups have packages of their own: runcmd (run), mcpcmd (mcp),
// clientcmd (client), registrycmd (registry), secretcmd (secret), authcmd (auth), imagecmd
// (build, outdated, upgrade, prune) and doctorcmd (doctor). base is what all commands share,
// render how they write to terminals and pipes. Imports go from cli to the groups, then to base,
// then to render.
//
// A command is an options struct, a constructor that only parses, and a function that
// takes the options: it makes one call into the domain and renders the outcome. No
// decision about workloads is made here.
//
// Standard output carries the result and nothing else; progress, notes and errors go to
// standard error. Exit codes are in base/exit.go.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/authcmd"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clientcmd"
	"github.com/toolhaven/toolhaven/internal/cli/doctorcmd"
	"github.com/toolhaven/toolhaven/internal/cli/imagecmd"
	"github.com/toolhaven/toolhaven/internal/cli/mcpcmd"
	"github.com/toolhaven/toolhaven/internal/cli/registrycmd"
	"github.com/toolhaven/toolhaven/internal/cli/runcmd"
	"github.com/toolhaven/toolhaven/internal/cli/secretcmd"
)

// Main executes the command line and returns the exit code.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), endSignals()...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	app := base.NewApp()
	root := Root(app)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return base.ExitOK
	}
	var reported *base.Reported
	if ctx.Err() != nil {
		// The cause of any error is the interruption.
		if !errors.As(err, &reported) {
			fmt.Fprintln(app.Err, "Error: interrupted")
		}
		return base.ExitInterrupted
	}
	if !errors.As(err, &reported) {
		fmt.Fprintln(app.Err, base.Sentence(err))
	}
	return base.ExitCode(err)
}

// endSignals returns the signals that end a command as Ctrl-C does. SIGHUP is sent when a
// terminal is closed; a program that was started with nohup ignores it.
func endSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// Root returns the command `thv` with all its subcommands.
func Root(app *base.App) *cobra.Command {
	showVersion := false
	root := &cobra.Command{
		Use:   "thv",
		Short: "Run MCP tool servers safely",
		Long: `Toolhaven runs MCP tool servers as isolated workloads behind a local gateway.

A server is given by a registry name, an image, a package (npx://, uvx://,
go://), an exported configuration, or the URL of a remote server.`,
		Example: `  thv run npx://@modelcontextprotocol/server-filesystem --name files -v ~/notes:/notes -- /notes
  thv list
  thv mcp tools files
  thv stop --all`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if showVersion {
				_, err := fmt.Fprintln(app.Out, "thv", versionLine())
				return err
			}
			return cmd.Help()
		},
	}
	// Not cobra's Version: its template keeps methods of every type in the program, which
	// makes it a fifth larger.
	root.Flags().BoolVarP(&showVersion, "version", "v", false, "Print the version")
	root.SetOut(app.Out)
	root.SetErr(app.Err)
	root.PersistentFlags().BoolVar(&app.Debug, "debug", false, "Enable debug mode: log more")
	root.SetFlagErrorFunc(flagError)
	root.AddGroup(
		&cobra.Group{ID: "workloads", Title: "Workloads:"},
		&cobra.Group{ID: "servers", Title: "Servers:"},
		&cobra.Group{ID: "tool", Title: "The tool itself:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("workloads", runcmd.New(app), newList(app), newStatus(app), newStop(app), newStart(app), newRestart(app), newRm(app), imagecmd.Outdated(app), imagecmd.Upgrade(app), newLogs(app), newTools(app), newConnections(app), newLogin(app), newLogout(app), newExport(app), newGroup(app), newConnect(app))
	add("servers", clientcmd.New(app), mcpcmd.New(app), registrycmd.New(app), imagecmd.Build(app), imagecmd.Prune(app))
	add("tool", newConfig(app), authcmd.New(app), newPolicy(app), secretcmd.New(app), doctorcmd.New(app), newVersion(app))
	root.AddCommand(newOwner(app), newGateway(app), &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: base.ExitCodesHelp})
	complete := completeName(app)
	for _, c := range root.Commands() {
		switch c.Name() {
		case "status", "stop", "start", "restart", "rm", "logs", "login", "logout", "export", "connect", "connections", "outdated", "upgrade":
			c.ValidArgsFunction = complete
		case "tools":
			c.ValidArgsFunction = complete
			for _, sub := range c.Commands() {
				sub.ValidArgsFunction = complete
			}
		case "mcp":
			for _, sub := range c.Commands() {
				sub.ValidArgsFunction = complete
			}
		}
	}
	root.SetHelpCommand(newHelp())
	root.SetHelpCommandGroupID("tool")
	root.SetCompletionCommandGroupID("tool")
	usageArgs(root)
	return root
}
