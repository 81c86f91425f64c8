// Package registrycmd implements `thv registry`: the catalog of servers, and the sign-in to
// a registry that requires one.
package registrycmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/runline"
)

// New returns the command `registry`.
func New(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "registry",
		Short: "Show the catalog of servers that names are looked up in",
		Long: `Show the catalog of servers that names are looked up in.

A registry that requires a sign-in is signed in to with ` + "`thv registry login`" + `.
Machines provide a token instead: in the variable ` + base.EnvRegistryToken + `, or in a file
that ` + base.EnvRegistryTokenFile + ` names and that is read whenever a token is needed.`,
		Example: `  thv registry list
  thv registry search files
  thv registry info filesystem
  thv registry login
  THV_REGISTRY_TOKEN_FILE=/run/secrets/registry thv registry list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List all servers", Args: cobra.NoArgs, Example: "  thv registry list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runList(app, func(c registry.Catalog) (registry.List, error) { return c.List(cmd.Context()) })
		},
	}
	search := &cobra.Command{
		Use: "search WORDS", Short: "Find servers by title, name, tag or description, the best match first", Args: cobra.MinimumNArgs(1), Example: "  thv registry search files",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runList(app, func(c registry.Catalog) (registry.List, error) {
				return c.Search(cmd.Context(), strings.Join(args, " "))
			})
		},
	}
	info := &cobra.Command{
		Use: "info NAME", Short: "Show a server: what it is and what it needs", Args: cobra.ExactArgs(1), Example: "  thv registry info filesystem",
		RunE: func(cmd *cobra.Command, args []string) error { return runInfo(cmd.Context(), app, args[0]) },
	}
	for _, c := range []*cobra.Command{list, search, info} {
		base.OutputFlag(c, app)
		cmd.AddCommand(c)
	}
	cmd.AddCommand(newLogin(app), newLogout(app))
	return cmd
}

func runList(app *base.App, find func(registry.Catalog) (registry.List, error)) error {
	catalog, err := app.Catalog()
	if err != nil {
		return err
	}
	list, err := find(catalog)
	if err != nil {
		return err
	}
	if n := list.LeftOut.Malformed; n > 0 {
		what := "entries of the registry cannot be used and are left out"
		if n == 1 {
			what = "entry of the registry cannot be used and is left out"
		}
		fmt.Fprintf(app.Err, "warning: %d %s: %s\n", n, what, plaintext.Line(list.LeftOut.Why()))
	}
	entries := list.Entries
	if app.JSON {
		if entries == nil {
			entries = []*registry.Entry{}
		}
		return render.JSON(app.Out, entries)
	}
	if len(entries) == 0 {
		fmt.Fprintln(app.Err, "nothing found")
		return nil
	}
	rows := make([][]string, len(entries))
	for i, e := range entries {
		kind := "container"
		if len(e.Packages) == 0 && len(e.Remotes) > 0 {
			kind = "remote"
		}
		rows[i] = []string{e.Name, e.Version, kind, render.FirstLine(e.Description)}
	}
	return render.Table(app.Out, []string{"NAME", "VERSION", "KIND", "DESCRIPTION"}, rows, nil)
}

func runInfo(ctx context.Context, app *base.App, name string) error {
	catalog, err := app.Catalog()
	if err != nil {
		return err
	}
	e, err := catalog.Get(ctx, name)
	if err != nil {
		return err
	}
	if app.JSON {
		return render.JSON(app.Out, e)
	}
	line := func(name, value string) {
		if value != "" {
			if name != "" {
				name += ":"
			}
			fmt.Fprintf(app.Out, "%-14s %s\n", name, plaintext.Lines(value))
		}
	}
	line("Name", e.Name)
	line("Title", e.Title)
	line("Version", e.Version)
	line("Status", e.Status)
	line("Description", e.Description)
	line("Repository", e.Repository)
	line("Tools", strings.Join(e.Tools, ", "))
	line("Tags", strings.Join(e.Tags, ", "))
	for _, p := range e.Packages {
		line("Package", strings.TrimSpace(p.RegistryType+" "+p.Identifier+" "+p.Version))
		for _, in := range p.Environment {
			need := "optional"
			if in.IsRequired {
				need = "required"
			}
			line("  "+need, in.Name+"  "+in.Description)
		}
	}
	for _, r := range e.Remotes {
		line("Remote", r.URL)
	}
	run := runline.For(e, e.Name)
	if run.Line == "" {
		line("Run it", run.Reason)
	} else {
		fmt.Fprintf(app.Out, "%-14s %s\n", "Run it:", run.Line) // quoted, and without unsafe characters
	}
	for _, note := range run.Notes {
		line("", note)
	}
	return nil
}
