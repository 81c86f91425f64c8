package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/mcpcmd"
	"github.com/toolhaven/toolhaven/internal/cli/registrycmd"
	"github.com/toolhaven/toolhaven/internal/cli/runcmd"
)

// Main runs the command line and returns the exit code.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
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
		// Whatever failed, failed because of this.
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

// Root is the command `thv` with all its subcommands.
func Root(app *base.App) *cobra.Command {
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
		Version:       versionLine(),
		SilenceErrors: true,
		SilenceUsage:  true,
		// The one way to see completions is the command `completion`.
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
		Args:              cobra.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("thv {{.Version}}\n")
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
	add("workloads", runcmd.New(app), newList(app), newStatus(app), newStop(app), newStart(app), newRestart(app), newRm(app), newLogs(app), newExport(app), newGroup(app))
	add("servers", mcpcmd.New(app), registrycmd.New(app), newBuild(app))
	add("tool", newConfig(app), newDoctor(app), newVersion(app))
	root.AddCommand(newOwner(app), &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: base.ExitCodesHelp})
	complete := func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return completeName(app, cmd, args)
	}
	for _, c := range root.Commands() {
		switch c.Name() {
		case "status", "stop", "start", "restart", "rm", "logs", "export":
			c.ValidArgsFunction = complete
		case "mcp":
			for _, sub := range c.Commands() {
				sub.ValidArgsFunction = complete
			}
		}
	}
	root.SetHelpCommandGroupID("tool")
	root.SetCompletionCommandGroupID("tool")
	usageArgs(root)
	return root
}

// completeName offers the shell the workloads' names.
func completeName(app *base.App, cmd *cobra.Command, args []string) ([]string, cobra.ShellCompDirective) {
	store, err := app.Store()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names, err := store.Names()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	if len(args) > 0 && cmd.Flags().Lookup("all") == nil { // it takes one name
		return nil, cobra.ShellCompDirectiveDefault
	}
	directive := cobra.ShellCompDirectiveNoFileComp
	if len(args) == 1 && cmd.Name() == "export" { // a name, or a file
		directive = cobra.ShellCompDirectiveDefault
	}
	return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args, n) }), directive
}

// usageArgs makes every complaint about arguments a fault of the command line.
func usageArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil {
				return nil
			}
			if cmd.HasSubCommands() && len(args) > 0 {
				var names []string
				for _, c := range cmd.Commands() {
					if c.IsAvailableCommand() {
						names = append(names, c.Name())
					}
				}
				return base.Usage("there is no command %q%s; see `%s --help`", cmd.CommandPath()+" "+args[0], base.DidYouMean(args[0], names, ""), cmd.CommandPath())
			}
			if isCount(err) {
				err = countFault(cmd, args)
			}
			return base.Usage("%w; see `%s --help`", err, cmd.CommandPath())
		}
	}
	for _, c := range cmd.Commands() {
		usageArgs(c)
	}
}

// isCount tells that err is cobra's word on the number of arguments.
func isCount(err error) bool {
	return strings.Contains(err.Error(), " arg(s)") || strings.HasPrefix(err.Error(), "unknown command ")
}

// countFault says what is wrong with the number of arguments, each of which cmd.Use has
// a word for.
func countFault(cmd *cobra.Command, args []string) error {
	switch want := len(strings.Fields(cmd.Use)) - 1; {
	case want == 0:
		return fmt.Errorf("%s takes no arguments; %q is one", cmd.CommandPath(), args[0])
	case len(args) < want:
		return fmt.Errorf("too few arguments for %s%s", cmd.CommandPath(), strings.TrimPrefix(cmd.Use, cmd.Name()))
	default:
		return fmt.Errorf("%q is one argument too many for %s%s", args[want], cmd.CommandPath(), strings.TrimPrefix(cmd.Use, cmd.Name()))
	}
}

// flagError explains a fault of a flag; for an unknown one it names the nearest.
func flagError(cmd *cobra.Command, err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		return base.Usage("unknown flag --%s%s; see `%s --help`", name, base.DidYouMean(name, known, "--"), cmd.CommandPath())
	}
	return base.Usage("%w; see `%s --help`", err, cmd.CommandPath())
}
