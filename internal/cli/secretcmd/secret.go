// Package secretcmd implements `thv secret`: the secrets that the user names, and the
// provider that keeps them.
package secretcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/secret"
)

// New returns the command `secret`.
func New(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Store secrets, and choose what keeps them",
		Long: `Store secrets, which servers get by ` + "`thv run --secret NAME,target=VARIABLE`" + `.

They work without any set-up: they are in a file that only you can read. Another provider
is chosen with ` + "`thv secret provider`" + `.

The password of the provider encrypted is typed, or read from --password-file, from the file
that ` + base.EnvSecretsPasswordFile + ` names, or from ` + base.EnvSecretsPassword + `.`,
		Example: `  thv secret set github
  gh auth token | thv secret set github
  thv run ghcr.io/github/github-mcp-server --secret github,target=GITHUB_PERSONAL_ACCESS_TOKEN
  thv secret provider keyring`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&app.PasswordFile, "password-file", "", "File with the password of the provider encrypted")
	cmd.AddCommand(newSet(app), newGet(app), newList(app), newDelete(app), newImport(app), newProvider(app))
	return cmd
}

// provider opens the provider that was chosen.
func provider(app *base.App) (secret.Provider, error) {
	all, err := app.AllSecrets()
	if err != nil {
		return nil, err
	}
	return all.Provider()
}

func newSet(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Store a secret; its value is typed, or read from standard input",
		Long: `Set stores a secret, or replaces its value. On a terminal the value is typed and not shown;
otherwise standard input is the value, without line breaks at its end. A value in an argument
would be visible to other programs, and is refused.`,
		Example: "  thv secret set github\n  gh auth token | thv secret set github",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("a value is not given as an argument, which other programs can see; it is typed, or read from standard input")
			}
			if len(args) == 0 {
				return errors.New("name the secret")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runSet(cmd.Context(), app, args[0]) },
	}
	base.OutputFlag(cmd, app)
	return cmd
}

func runSet(ctx context.Context, app *base.App, name string) error {
	p, err := provider(app)
	if err != nil {
		return err
	}
	if err := secret.CheckName(name); err != nil {
		return base.AsUsage(err)
	}
	if !p.About().Writes {
		return p.Set(ctx, name, "")
	}
	value, err := readValue(ctx, app, name)
	if err != nil {
		return err
	}
	if err := secret.CheckValue(value); err != nil {
		return base.Usage("secret %q: %w", name, err)
	}
	if err := p.Set(ctx, name, value); err != nil {
		return err
	}
	about := p.About()
	if app.JSON {
		return render.JSON(app.Out, struct {
			Name     string       `json:"name"`
			Provider secret.About `json:"provider"`
		}{name, about})
	}
	fmt.Fprintf(app.Err, "%s is stored by the provider %s (%s)\nIts protection: %s\n", name, about.Name, plaintext.Line(about.Place), about.Protects)
	return nil
}

// readValue returns what is typed, or standard input without line breaks at its end.
func readValue(ctx context.Context, app *base.App, name string) (string, error) {
	value, typed, err := app.ReadHidden(ctx, "Value of "+name+": ")
	if typed || err != nil {
		return value, err
	}
	content, err := io.ReadAll(io.LimitReader(app.In, secret.MaxValue+2))
	if err != nil {
		return "", fmt.Errorf("read the value from standard input: %w", err)
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}

func newGet(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "get NAME", Short: "Print the value of a secret", Args: cobra.ExactArgs(1), Example: "  thv secret get github",
		RunE: func(cmd *cobra.Command, args []string) error { return runGet(cmd.Context(), app, args[0]) },
	}
	base.OutputFlag(cmd, app)
	return cmd
}

func runGet(ctx context.Context, app *base.App, name string) error {
	all, err := app.AllSecrets()
	if err != nil {
		return err
	}
	value, err := all.Get(ctx, name)
	if err != nil {
		return err
	}
	if app.JSON {
		return render.JSON(app.Out, map[string]string{"name": name, "value": value})
	}
	_, err = fmt.Fprintln(app.Out, value)
	return err
}

func newList(app *base.App) *cobra.Command {
	var internal bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the names of the secrets", Args: cobra.NoArgs,
		Long: `List shows the names of the secrets, and never values. With --all it also shows the keys of
what thv itself keeps in the local store: values that run -e keeps apart, and sign-ins.
These are changed by the commands that they belong to only.`,
		Example: "  thv secret list\n  thv secret list --all -o json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return runList(cmd.Context(), app, internal) },
	}
	cmd.Flags().BoolVarP(&internal, "all", "a", false, "Show what thv itself keeps, too")
	base.OutputFlag(cmd, app)
	return cmd
}

// listed is a line of list: Name, or Key of what thv itself keeps.
type listed struct {
	Name string `json:"name,omitempty"`
	Key  string `json:"key,omitempty"`
}

func runList(ctx context.Context, app *base.App, internal bool) error {
	p, err := provider(app)
	if err != nil {
		return err
	}
	names, err := p.List(ctx)
	if err != nil {
		return err
	}
	out := []listed{}
	for _, name := range names {
		out = append(out, listed{Name: name})
	}
	if internal {
		store, err := app.Secrets()
		if err != nil {
			return err
		}
		keys, err := store.List(ctx, "")
		if err != nil {
			return err
		}
		for _, key := range keys {
			if _, users := secret.UserName(key); !users {
				out = append(out, listed{Key: key})
			}
		}
	}
	if app.JSON {
		return render.JSON(app.Out, out)
	}
	rows := make([][]string, 0, len(out))
	for _, l := range out {
		rows = append(rows, []string{l.Name + l.Key})
	}
	return render.Table(app.Out, []string{"NAME"}, rows, nil)
}

func newDelete(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete NAME...", Aliases: []string{"rm"}, Short: "Delete secrets", Args: cobra.MinimumNArgs(1), Example: "  thv secret delete github",
		RunE: func(cmd *cobra.Command, args []string) error { return runDelete(cmd.Context(), app, args) },
	}
	base.OutputFlag(cmd, app)
	return cmd
}

func runDelete(ctx context.Context, app *base.App, names []string) error {
	p, err := provider(app)
	if err != nil {
		return err
	}
	var deleted []listed
	err = base.Each(ctx, app, names, func(name string) error {
		if err := p.Delete(ctx, name); err != nil {
			return err
		}
		deleted = append(deleted, listed{Name: name})
		fmt.Fprintf(app.Err, "%s deleted\n", name)
		users, err := usersOf(app, name)
		if len(users) > 0 {
			fmt.Fprintf(app.Err, "Note: %s cannot start again without it\n", strings.Join(users, ", "))
		}
		return err
	})
	return base.Show(app, len(names) == 1, deleted, err)
}

// usersOf returns the workloads that refer to a secret.
func usersOf(app *base.App, name string) ([]string, error) {
	store, err := app.Store()
	if err != nil {
		return nil, err
	}
	workloads, err := store.Names()
	if err != nil {
		return nil, err
	}
	var users []string
	for _, w := range workloads {
		spec, err := store.Get(w)
		if err != nil {
			continue // a damaged one is reported by list
		}
		for _, ref := range spec.SecretRefs() {
			if ref == secret.SharedRef(name) {
				users = append(users, w)
			}
		}
	}
	return users, nil
}
