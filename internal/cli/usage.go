package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolhaven/toolhaven/internal/cli/base"
)

// newHelp returns the command help. Unlike cobra's own, it fails for an unknown command.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]...",
		Short:   "Help about any command",
		Example: "  thv help run\n  thv help exit-codes",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = unknownCommand(about, rest[0])
			}
			if err != nil {
				return err
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// unknownCommand is the error for a word that is not a subcommand of cmd.
func unknownCommand(cmd *cobra.Command, word string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return base.Usage("there is no command %q%s; see `%s --help`", cmd.CommandPath()+" "+word, base.DidYouMean(word, names, ""), cmd.CommandPath())
}

// usageArgs makes every error about arguments a usage error, of cmd and all below it.
func usageArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil {
				return nil
			}
			if cmd.HasSubCommands() && len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			// Cobra's errors about the number of arguments have no type.
			if text := err.Error(); strings.Contains(text, " arg(s)") || strings.HasPrefix(text, "unknown command ") {
				err = countError(cmd, args)
			}
			return base.Usage("%w; see `%s --help`", err, cmd.CommandPath())
		}
	}
	for _, c := range cmd.Commands() {
		usageArgs(c)
	}
}

// countError describes a wrong number of arguments; cmd.Use has a word for each.
func countError(cmd *cobra.Command, args []string) error {
	switch want := len(strings.Fields(cmd.Use)) - 1; {
	case want == 0:
		return fmt.Errorf("%s takes no arguments; %q is one", cmd.CommandPath(), args[0])
	case len(args) < want:
		return fmt.Errorf("too few arguments for %s%s", cmd.CommandPath(), strings.TrimPrefix(cmd.Use, cmd.Name()))
	default:
		return fmt.Errorf("%q is one argument too many for %s%s", args[want], cmd.CommandPath(), strings.TrimPrefix(cmd.Use, cmd.Name()))
	}
}

// flagError describes an error of the flag parser.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var empty *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		err = fmt.Errorf("unknown flag --%s%s", unknown.GetSpecifiedName(), base.DidYouMean(unknown.GetSpecifiedName(), known, "--"))
	case errors.As(err, &empty):
		err = fmt.Errorf("%s needs a value (%s)", flagName(empty.GetFlag()), empty.GetFlag().Usage)
	case errors.As(err, &invalid):
		reason := invalid.Unwrap().Error()
		switch invalid.GetFlag().Value.Type() {
		case "int":
			reason = "it is not a whole number"
		case "duration":
			reason = "it is not a duration such as 30s, 5m or 2h"
		case "bool":
			reason = "it is neither true nor false"
		}
		err = fmt.Errorf("%s %q: %s", flagName(invalid.GetFlag()), invalid.GetValue(), reason)
	}
	return base.Usage("%w; see `%s --help`", err, cmd.CommandPath())
}

func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand
	}
	return "--" + f.Name
}

// completeName completes the names of workloads.
func completeName(app *base.App) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
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
}
