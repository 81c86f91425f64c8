package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/registry/config"
)

func newValidate(env Env) *cobra.Command {
	var path string
	var skipFiles bool
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check a configuration file, and say everything that is wrong with it",
		Long: `Checks the configuration as serve does, and the files that it names (secrets,
certificates, tokens). Nothing is asked over the network, and no database is
opened.`,
		Example: `  thv-registry validate --config registry.yaml
  thv-registry validate --config registry.yaml --skip-files   # on another machine than the one it is for`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := load(env, path)
			if err != nil {
				return err
			}
			if !skipFiles {
				if err := cfg.CheckFiles(); err != nil {
					return &config.Faults{Path: path, Err: err}
				}
			}
			_, err = fmt.Fprint(env.Out, summary(path, cfg))
			return err
		},
	}
	configFlag(cmd, &path)
	cmd.Flags().BoolVar(&skipFiles, "skip-files", false, "do not look whether the files that it names are there")
	return cmd
}

// summary describes a valid configuration.
func summary(path string, cfg *config.Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is valid.\n", path)
	for _, warning := range cfg.Warnings() {
		fmt.Fprintf(&b, "  warning: %s\n", warning)
	}
	switch cfg.Auth.Mode {
	case config.ModeAnonymous:
		b.WriteString("  everybody may read and publish, without a token\n")
	default:
		fmt.Fprintf(&b, "  tokens for %s of:\n", cfg.Auth.OAuth.ResourceURL)
		for _, p := range cfg.Auth.OAuth.Providers {
			fmt.Fprintf(&b, "    %s: %s (audience %s)\n", p.Name, p.IssuerURL, p.Audience)
		}
	}
	kinds := map[string]string{}
	for _, s := range cfg.Sources {
		kinds[s.Name] = s.Kind()
	}
	for _, r := range cfg.Registries {
		parts := make([]string, len(r.Sources))
		for i, s := range r.Sources {
			parts[i] = s + " (" + kinds[s] + ")"
		}
		fmt.Fprintf(&b, "  registry %s from %s\n", r.Name, strings.Join(parts, ", "))
	}
	if cfg.Database.Postgres != nil {
		b.WriteString("  database: PostgreSQL\n")
	} else {
		fmt.Fprintf(&b, "  database: SQLite, %s\n", cfg.Database.SQLite.Path)
	}
	return b.String()
}
