package cli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
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

// groupShown is a group as -o json shows it. When it is removed, they are its former
// workloads.
type groupShown struct {
	Name      string   `json:"name"`
	Workloads []string `json:"workloads"`
}

func newGroupCreate(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Make a group",
		Long:    "Create makes a group without workloads. With -o json it prints what group list\n-o json shows of it, as one object.",
		Example: "  thv group create work",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := workload.ValidName(args[0]); err != nil {
				return base.AsUsage(err)
			}
			store, err := app.Store()
			if err != nil {
				return err
			}
			if err := store.CreateGroup(args[0]); err != nil {
				return err
			}
			fmt.Fprintf(app.Err, "group %s created\n", args[0])
			return base.Show(app, true, []groupShown{{args[0], []string{}}}, nil)
		},
	}
	base.OutputFlag(cmd, app)
	return cmd
}

func newGroupList(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List groups and how many workloads they have",
		Example: "  thv group list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
			all, err := m.List(cmd.Context())
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
		},
	}
	base.OutputFlag(cmd, app)
	return cmd
}

func newGroupRm(app *base.App) *cobra.Command {
	var with bool
	cmd := &cobra.Command{
		Use:   "rm NAME...",
		Short: "Remove groups",
		Long: `Remove forgets groups. A group that has workloads is removed only with
--with-workloads, which removes them too.

With -o json it prints the groups and the workloads removed with them, as group list
does: one object for one NAME, else an array. What failed is not in it; the reason is
on standard error.`,
		Aliases: []string{"remove", "delete"},
		Example: "  thv group rm work --with-workloads",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := app.Store()
			if err != nil {
				return err
			}
			p := render.NewProgress(app.Err, app.Env)
			defer p.Done()
			var removed []groupShown
			err = app.Each(cmd.Context(), args, func(group string) error {
				if err := app.GroupExists(group); err != nil { // "" would select those of none
					return err
				}
				m, names, err := (&base.Selection{Group: group}).Resolve(cmd.Context(), app)
				if err != nil {
					return err
				}
				if len(names) > 0 && !with {
					return fmt.Errorf("group %q has %s; remove what is in it first, or add --with-workloads", group, render.Counted(len(names), "workload"))
				}
				gone := []string{}
				for _, name := range names {
					err := m.Remove(cmd.Context(), name, p.Event)
					p.Done()
					if errors.Is(err, workload.ErrNotFound) {
						continue
					}
					if err != nil {
						return err
					}
					gone = append(gone, name)
				}
				if err := store.RemoveGroup(group); err != nil {
					return err
				}
				fmt.Fprintf(app.Err, "group %s removed\n", group)
				removed = append(removed, groupShown{group, gone})
				return nil
			})
			return base.Show(app, len(args) == 1, removed, err)
		},
	}
	base.OutputFlag(cmd, app)
	cmd.Flags().BoolVar(&with, "with-workloads", false, "Remove the group's workloads too")
	return cmd
}
