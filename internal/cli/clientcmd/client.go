// Package clientcmd implements `thv client`: the editors, desktop apps and agents whose
// configuration has the workloads.
package clientcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/clientconfig"
	"github.com/toolhaven/toolhaven/internal/manager"
)

// New returns the command `client`.
func New(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "client",
		Short: "Use workloads in editors, desktop apps and agents",
		Long: `Client writes workloads into the configuration files of editors, desktop apps and agents
(MCP clients). A client is set up once; after that, thv run adds each workload to it, and
thv rm removes it again. An entry stays while its workload is stopped: its URL does not
change.

Only entries that thv wrote are changed or removed; every other byte of a file stays as it
is. Before the first change a file is copied to FILE.thv-backup. A file that is not valid,
is read-only, or is a symlink to something outside of your home directory is left as it
is, with a note. A client that cannot connect to URLs gets an entry that starts
"thv connect".`,
		Example: `  thv client setup cursor claude-code
  thv client status
  thv client setup vscode --group work
  thv client remove cursor`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newList(app), newSetup(app), newStatus(app), newRemove(app))
	return cmd
}

// completeClient completes names of clients.
func completeClient(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return clientconfig.Names(), cobra.ShellCompDirectiveNoFileComp
}

// checkNames refuses names that no client has.
func checkNames(names []string) error {
	var errs []error
	for _, name := range names {
		if clientconfig.Find(name) == nil {
			errs = append(errs, fmt.Errorf("there is no client %q%s; `thv client list` shows them", name, base.DidYouMean(name, clientconfig.Names(), "")))
		}
	}
	return base.AsUsage(errors.Join(errs...))
}

func newList(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the clients that can be set up, and their files",
		Example: "  thv client list",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return runList(app) },
	}
	base.OutputFlag(cmd, app)
	return cmd
}

// clientShown is a client in the form of -o json.
type clientShown struct {
	Name      string `json:"name"`
	Title     string `json:"title"`
	Installed bool   `json:"installed"`
	SetUp     bool   `json:"setUp"`
	File      string `json:"file"`
}

func runList(app *base.App) error {
	setup, err := app.Clients()
	if err != nil {
		return err
	}
	enabled, err := setup.Enabled()
	if err != nil {
		return err
	}
	installed := setup.Installed()
	var shown []clientShown
	var rows [][]string
	for _, c := range clientconfig.Clients() {
		s := clientShown{c.Name, c.Title, slices.Contains(installed, c.Name), slices.Contains(enabled, c.Name), setup.File(c)}
		shown = append(shown, s)
		rows = append(rows, []string{s.Name, s.Title, yes(s.Installed), yes(s.SetUp), s.File})
	}
	if app.JSON {
		return render.JSON(app.Out, shown)
	}
	return render.Table(app.Out, []string{"NAME", "CLIENT", "INSTALLED", "SET UP", "FILE"}, rows, nil)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// workloads returns the stored workloads. With states, each has its state now.
func workloads(ctx context.Context, app *base.App, states bool) ([]*clientconfig.Workload, error) {
	store, err := app.Store()
	if err != nil {
		return nil, err
	}
	m, err := app.Manager()
	if err != nil {
		return nil, err
	}
	names, err := store.Names()
	if err != nil {
		return nil, err
	}
	var all []*clientconfig.Workload
	for _, name := range names {
		spec, err := store.Get(name)
		if err != nil {
			continue // list and status report it
		}
		w := base.ClientWorkload(spec)
		if states {
			st, err := m.Status(ctx, name)
			if errors.Is(err, manager.ErrNotFound) {
				continue // removed meanwhile
			}
			if err != nil {
				return nil, err
			}
			w.State = string(st.State)
		}
		all = append(all, w)
	}
	return all, nil
}

// finish writes changes as a command's result. The error reports that a file failed.
func finish(app *base.App, changes []clientconfig.Change) error {
	base.PrintChanges(app, changes)
	failed := 0
	for _, c := range changes {
		if c.Action == clientconfig.Failed {
			failed++
		}
	}
	var err error
	if failed > 0 {
		err = fmt.Errorf("%s could not be changed", render.Counted(failed, "file"))
	}
	return base.Show(app, false, changes, err)
}

// titles returns the titles of clients, for a sentence.
func titles(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = clientconfig.Find(name).Title
	}
	return strings.Join(all, ", ")
}
