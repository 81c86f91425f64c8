package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/settings"
)

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
	change := func(key, value string) error {
		dirs, err := app.Dirs()
		if err != nil {
			return err
		}
		if value != "" && !strings.Contains(value, "://") {
			if value, err = filepath.Abs(value); err != nil {
				return err
			}
		}
		return base.AsUsage(settings.Change(dirs, key, value))
	}
	list := &cobra.Command{
		Use: "list", Short: "Show every setting", Args: cobra.NoArgs, Example: "  thv config list",
		RunE: func(*cobra.Command, []string) error {
			cfg, err := app.Config()
			if err != nil {
				return err
			}
			shown := map[string]string{}
			var rows [][]string
			for _, k := range settings.Keys() {
				shown[k.Name] = k.Value(cfg)
				rows = append(rows, []string{k.Name, k.Value(cfg), k.Meaning})
			}
			if app.JSON {
				return render.JSON(app.Out, shown)
			}
			return render.Table(app.Out, []string{"SETTING", "VALUE", "MEANING"}, rows, nil)
		},
	}
	base.OutputFlag(list, app)
	get := &cobra.Command{
		Use: "get SETTING", Short: "Show one setting", Args: cobra.ExactArgs(1), Example: "  thv config get registry",
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, err := app.Config()
			if err != nil {
				return err
			}
			var names []string
			for _, k := range settings.Keys() {
				if k.Name != args[0] {
					names = append(names, k.Name)
					continue
				}
				if app.JSON {
					return render.JSON(app.Out, k.Value(cfg))
				}
				fmt.Fprintln(app.Out, k.Value(cfg))
				return nil
			}
			return base.Usage("there is no setting %q%s; see `thv config list`", args[0], base.DidYouMean(args[0], names, ""))
		},
	}
	base.OutputFlag(get, app)
	cmd.AddCommand(list,
		get,
		&cobra.Command{
			Use: "set SETTING VALUE", Short: "Change one setting", Args: cobra.ExactArgs(2), Example: "  thv config set caCert /etc/ssl/company.pem",
			RunE: func(_ *cobra.Command, args []string) error {
				if args[1] == "" {
					return base.Usage("the value is empty; `thv config unset %s` removes it", args[0])
				}
				return change(args[0], args[1])
			},
		},
		&cobra.Command{
			Use: "unset SETTING", Short: "Remove one setting", Args: cobra.ExactArgs(1), Example: "  thv config unset registry",
			RunE: func(_ *cobra.Command, args []string) error { return change(args[0], "") },
		},
		&cobra.Command{
			Use: "set-registry URL_OR_FILE", Short: "Choose the registry that names are looked up in", Args: cobra.ExactArgs(1),
			Example: "  thv config set-registry https://registry.example.com/registry/default\n  thv config set-registry ./servers.json",
			RunE:    func(_ *cobra.Command, args []string) error { return change("registry", args[0]) },
		},
		&cobra.Command{
			Use: "unset-registry", Short: "Go back to the built-in catalog", Args: cobra.NoArgs, Example: "  thv config unset-registry",
			RunE: func(*cobra.Command, []string) error { return change("registry", "") },
		},
	)
	return cmd
}
