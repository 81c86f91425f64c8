package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/settings"
)

// registryCheckTime is how long set-registry waits for the new registry.
const registryCheckTime = 10 * time.Second

func newConfig(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show and change the tool's own configuration",
		Example: `  thv config list
  thv config set-registry https://registry.example.com/registry/default
  thv config set-registry ~/servers.json
  thv config unset registry`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	list := &cobra.Command{
		Use: "list", Short: "Show every setting", Args: cobra.NoArgs, Example: "  thv config list",
		RunE: func(*cobra.Command, []string) error { return runConfigList(app) },
	}
	get := &cobra.Command{
		Use: "get SETTING", Short: "Show one setting", Args: cobra.ExactArgs(1), Example: "  thv config get registry",
		RunE: func(_ *cobra.Command, args []string) error { return runConfigGet(app, args[0]) },
	}
	base.OutputFlag(list, app)
	base.OutputFlag(get, app)
	cmd.AddCommand(list, get,
		&cobra.Command{
			Use: "set SETTING VALUE", Short: "Change one setting", Args: cobra.ExactArgs(2), Example: "  thv config set caCert /etc/ssl/company.pem",
			RunE: func(cmd *cobra.Command, args []string) error {
				if args[1] == "" {
					return base.Usage("the value is empty; `thv config unset %s` removes it", args[0])
				}
				return runConfigSet(cmd.Context(), app, args[0], args[1])
			},
		},
		&cobra.Command{
			Use: "unset SETTING", Short: "Remove one setting", Args: cobra.ExactArgs(1), Example: "  thv config unset registry",
			RunE: func(cmd *cobra.Command, args []string) error { return runConfigSet(cmd.Context(), app, args[0], "") },
		},
		&cobra.Command{
			Use: "set-registry URL_OR_FILE", Short: "Choose the registry that names are looked up in", Args: cobra.ExactArgs(1),
			Long: `Set-registry stores the URL or the file of a registry, and then reads the list of its
servers once. When that fails, the setting is kept and a note gives the reason.`,
			Example: "  thv config set-registry https://registry.example.com/registry/default\n  thv config set-registry ./servers.json",
			RunE: func(cmd *cobra.Command, args []string) error {
				if args[0] == "" {
					return base.Usage("the registry is empty; `thv config unset-registry` removes it")
				}
				return runConfigSet(cmd.Context(), app, "registry", args[0])
			},
		},
		&cobra.Command{
			Use: "unset-registry", Short: "Go back to the built-in catalog", Args: cobra.NoArgs, Example: "  thv config unset-registry",
			RunE: func(cmd *cobra.Command, _ []string) error { return runConfigSet(cmd.Context(), app, "registry", "") },
		},
	)
	return cmd
}

func runConfigList(app *base.App) error {
	cfg, err := app.Config()
	if err != nil {
		return err
	}
	values := map[string]string{}
	var rows [][]string
	for _, k := range settings.Keys() {
		values[k.Name] = k.Value(cfg)
		rows = append(rows, []string{k.Name, k.Value(cfg), k.Meaning})
	}
	if app.JSON {
		return render.JSON(app.Out, values)
	}
	return render.Table(app.Out, []string{"SETTING", "VALUE", "MEANING"}, rows, nil)
}

func runConfigGet(app *base.App, name string) error {
	cfg, err := app.Config()
	if err != nil {
		return err
	}
	var names []string
	for _, k := range settings.Keys() {
		if k.Name != name {
			names = append(names, k.Name)
			continue
		}
		if app.JSON {
			return render.JSON(app.Out, k.Value(cfg))
		}
		_, err := fmt.Fprintln(app.Out, k.Value(cfg))
		return err
	}
	return base.Usage("there is no setting %q%s; see `thv config list`", name, base.DidYouMean(name, names, ""))
}

// runConfigSet changes one setting; the value "" removes it. A relative path is stored as
// an absolute one. A registry is checked once.
func runConfigSet(ctx context.Context, app *base.App, name, value string) error {
	dirs, err := app.Dirs()
	if err != nil {
		return err
	}
	if value != "" && !strings.Contains(value, "://") {
		if value, err = filepath.Abs(value); err != nil {
			return err
		}
	}
	if err := settings.Change(dirs, name, value); err != nil {
		return base.AsUsage(err)
	}
	if name != "registry" || value == "" {
		return nil
	}
	if err := checkRegistry(ctx, app); err != nil {
		hint := ""
		if errors.Is(err, registry.ErrUnreachable) {
			hint = "; `thv registry list` tries again"
		}
		fmt.Fprintf(app.Err, "Note: the setting is stored, but the registry cannot be used now: %s%s\n", plaintext.Lines(err.Error()), hint)
	}
	return nil
}

// checkRegistry reads the list of the registry's servers. It returns nil when ctx ends:
// the setting is stored.
func checkRegistry(ctx context.Context, app *base.App) error {
	catalog, err := app.Catalog()
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, registryCheckTime)
	defer cancel()
	_, err = catalog.List(bounded)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
