package clientcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/clientconfig"
)

type setupOptions struct {
	app   *base.App
	names []string
	all   bool
	group string
}

func newSetup(app *base.App) *cobra.Command {
	o := &setupOptions{app: app}
	cmd := &cobra.Command{
		Use:   "setup [NAME... | --all]",
		Short: "Add the workloads to clients, now and when they are run",
		Long: `Setup writes the workloads that exist into the configuration of the clients, and makes
thv run do so for later ones. --all sets up each client that is installed. Without names
on a terminal, setup prompts for each of these.

With --group a client has only the workloads of the group. Setup of a client that is set
up already replaces its group; without --group it has all workloads.

With -o json it prints what happened to each entry.`,
		Example: `  thv client setup cursor
  thv client setup --all
  thv client setup vscode --group work`,
		ValidArgsFunction: completeClient,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			return runSetup(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "All clients that are installed")
	cmd.Flags().StringVarP(&o.group, "group", "g", "", "Only the workloads of this group")
	base.OutputFlag(cmd, app)
	return cmd
}

func runSetup(ctx context.Context, o *setupOptions) error {
	if o.all && len(o.names) > 0 {
		return base.Usage("names and --all exclude each other")
	}
	if err := checkNames(o.names); err != nil {
		return err
	}
	if o.group != "" {
		if err := base.GroupExists(o.app, o.group); err != nil {
			return err
		}
	}
	setup, err := o.app.Clients()
	if err != nil {
		return err
	}
	names, err := o.choose(ctx, setup)
	if err != nil || len(names) == 0 {
		return err
	}
	workloads, err := workloads(ctx, o.app, false)
	if err != nil {
		return err
	}
	changes, err := setup.Add(ctx, names, o.group, workloads)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.app.Err, "set up: %s\n", titles(names))
	return finish(o.app, changes)
}

// choose returns the clients to set up.
func (o *setupOptions) choose(ctx context.Context, setup *clientconfig.Setup) ([]string, error) {
	if len(o.names) > 0 {
		return slices.Compact(slices.Sorted(slices.Values(o.names))), nil
	}
	installed := setup.Installed()
	if len(installed) == 0 {
		return nil, errors.New("no client seems to be installed; name one: `thv client list` shows them")
	}
	if o.all {
		return installed, nil
	}
	tty, ok := o.app.In.(*os.File)
	if !ok || !render.IsTerminal(tty) || !render.IsTerminal(o.app.Err) {
		return nil, base.Usage("name clients, or use --all for those that are installed: %s", strings.Join(installed, ", "))
	}
	in := render.NewInput(tty)
	var chosen []string
	for _, name := range installed {
		yes, err := in.Confirm(ctx, o.app.Err, fmt.Sprintf("Set up %s (%s)?", clientconfig.Find(name).Title, setup.File(clientconfig.Find(name))))
		if err != nil {
			return nil, err
		}
		if yes {
			chosen = append(chosen, name)
		}
	}
	return chosen, nil
}

type removeOptions struct {
	app   *base.App
	names []string
	all   bool
}

func newRemove(app *base.App) *cobra.Command {
	o := &removeOptions{app: app}
	cmd := &cobra.Command{
		Use:     "remove {NAME... | --all}",
		Aliases: []string{"rm"},
		Short:   "Remove the workloads from clients",
		Long: `Remove removes the entries that thv wrote from the configuration of the clients, and makes
thv run write none any more. A client whose file cannot be changed stays set up.

With -o json it prints what happened to each entry.`,
		Example: `  thv client remove cursor
  thv client remove --all`,
		ValidArgsFunction: completeClient,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			return runRemove(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "All clients that are set up")
	base.OutputFlag(cmd, app)
	return cmd
}

func runRemove(ctx context.Context, o *removeOptions) error {
	switch {
	case o.all && len(o.names) > 0:
		return base.Usage("names and --all exclude each other")
	case !o.all && len(o.names) == 0:
		return base.Usage("name a client, or use --all")
	}
	if err := checkNames(o.names); err != nil {
		return err
	}
	setup, err := o.app.Clients()
	if err != nil {
		return err
	}
	enabled, err := setup.Enabled()
	if err != nil {
		return err
	}
	names := enabled
	if !o.all {
		names = nil
		for _, name := range o.names {
			if !slices.Contains(enabled, name) {
				fmt.Fprintf(o.app.Err, "%s is not set up\n", name)
				continue
			}
			names = append(names, name)
		}
	}
	changes, err := setup.Remove(ctx, slices.Compact(slices.Sorted(slices.Values(names))))
	if err != nil {
		return err
	}
	return finish(o.app, changes)
}
