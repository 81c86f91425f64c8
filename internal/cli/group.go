package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func newGroup(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "group",
		Short: "Manage groups of workloads",
		Example: `  thv group create work
  thv run uvx://mcp-server-time --group work
  thv stop --group work
  thv group rm work --with-workloads`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGroupCreate(app), newGroupList(app), newGroupRm(app))
	return cmd
}

// groupShown is a group in the form of -o json. Of a removed group, Workloads are those
// that it had.
type groupShown struct {
	Name      string   `json:"name"`
	Workloads []string `json:"workloads"`
}

func newGroupCreate(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Create a group",
		Long:    "Create makes a group without workloads. With -o json it prints the group as group list\n-o json does, as one object.",
		Example: "  thv group create work",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return runGroupCreate(app, args[0]) },
	}
	base.OutputFlag(cmd, app)
	return cmd
}

func runGroupCreate(app *base.App, name string) error {
	if err := workload.ValidName(name); err != nil {
		return base.AsUsage(err)
	}
	store, err := app.Store()
	if err != nil {
		return err
	}
	if err := store.CreateGroup(name); err != nil {
		return err
	}
	fmt.Fprintf(app.Err, "group %s created\n", name)
	return base.Show(app, true, []groupShown{{name, []string{}}}, nil)
}

func newGroupList(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List groups and how many workloads they have",
		Example: "  thv group list",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runGroupList(cmd.Context(), app) },
	}
	base.OutputFlag(cmd, app)
	return cmd
}

func runGroupList(ctx context.Context, app *base.App) error {
	store, err := app.Store()
	if err != nil {
		return err
	}
	m, err := app.Manager()
	if err != nil {
		return err
	}
	groups, err := store.Groups()
	if err != nil {
		return err
	}
	all, err := m.List(ctx)
	if err != nil {
		return err
	}
	shown := make([]groupShown, len(groups))
	rows := make([][]string, len(groups))
	for i, name := range groups {
		members := []string{}
		for _, st := range all {
			if st.Group == name {
				members = append(members, st.Name)
			}
		}
		shown[i] = groupShown{name, members}
		rows[i] = []string{name, strconv.Itoa(len(members))}
	}
	if app.JSON {
		return render.JSON(app.Out, shown)
	}
	return render.Table(app.Out, []string{"GROUP", "WORKLOADS"}, rows, nil)
}

type groupRmOptions struct {
	app           *base.App
	names         []string
	withWorkloads bool
}

func newGroupRm(app *base.App) *cobra.Command {
	o := &groupRmOptions{app: app}
	cmd := &cobra.Command{
		Use:   "rm NAME...",
		Short: "Remove groups",
		Long: `Remove deletes groups. A group that has workloads is removed only with
--with-workloads, which removes them too.

With -o json it prints the groups and the workloads removed with them, as group list
does: one object for one NAME, else an array. What failed is left out; the reason is on
standard error.`,
		Aliases: []string{"remove", "delete"},
		Example: "  thv group rm work --with-workloads",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			return runGroupRm(cmd.Context(), o)
		},
	}
	base.OutputFlag(cmd, app)
	cmd.Flags().BoolVar(&o.withWorkloads, "with-workloads", false, "Remove the group's workloads too")
	return cmd
}

func runGroupRm(ctx context.Context, o *groupRmOptions) error {
	p := render.NewProgress(o.app.Err, o.app.Env)
	defer p.Done()
	var removed []groupShown
	err := base.Each(ctx, o.app, o.names, func(group string) error {
		gone, err := removeGroup(ctx, o, group, p)
		if err != nil {
			return err
		}
		fmt.Fprintf(o.app.Err, "group %s removed\n", group)
		removed = append(removed, groupShown{group, gone})
		return nil
	})
	return base.Show(o.app, len(o.names) == 1, removed, err)
}

// removeGroup removes a group and its workloads, whose names it returns.
func removeGroup(ctx context.Context, o *groupRmOptions, group string, p *render.Progress) ([]string, error) {
	store, err := o.app.Store()
	if err != nil {
		return nil, err
	}
	if err := base.GroupExists(o.app, group); err != nil {
		return nil, err
	}
	m, names, err := (&base.Selection{Group: group}).Resolve(ctx, o.app)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 && !o.withWorkloads {
		return nil, fmt.Errorf("group %q has %s; remove what is in it first, or add --with-workloads", group, render.Counted(len(names), "workload"))
	}
	gone := []string{}
	for _, name := range names {
		err := m.Remove(ctx, name, p.Event)
		p.Done()
		if errors.Is(err, manager.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		o.app.ForgetClients(ctx, name)
		gone = append(gone, name)
	}
	return gone, store.RemoveGroup(group)
}
