package secretcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/secret/providers"
	"github.com/toolhaven/toolhaven/internal/settings"
)

func newProvider(app *base.App) *cobra.Command {
	var to providers.Choice
	cmd := &cobra.Command{
		Use:   "provider [NAME] [-- COMMAND ARGS...]",
		Short: "Show or choose what keeps the secrets",
		Long: `Provider shows what keeps the secrets and against what it protects them. With NAME it chooses
another provider, and moves the secrets there, if it can be written to:

  file         a file that only you can read; without any set-up
  encrypted    a file that a password encrypts (AES-256-GCM, Argon2id)
  keyring      a file encrypted with a key in the system's keyring: Secret Service on Linux,
               Keychain on macOS, Credential Manager on Windows
  environment  the variables THV_SECRET_NAME; read only
  1password    names are op://VAULT/ITEM/FIELD; read only; needs the command op
  vault        HashiCorp Vault or OpenBao, key/value version 2; names are PATH or PATH#FIELD
  command      the output of a command of yours, whose last argument is the name; read only

The first three are the local store. What thv itself keeps (values of run -e, sign-ins) is
always there, encrypted or not as it is. A second ` + "`thv secret provider encrypted`" + ` changes the
password. Nothing is deleted before all of it can be read from the new place, and nothing in
Vault.`,
		Example: `  thv secret provider
  thv secret provider keyring
  thv secret provider encrypted --new-password-file /run/secrets/thv
  thv secret provider vault --vault-address https://vault.example.com --vault-mount team
  thv secret provider command -- pass show`,
		Args: func(cmd *cobra.Command, args []string) error { return parseProvider(cmd.Flags(), args, &to) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to.Provider == "" {
				return showProvider(app)
			}
			return changeProvider(cmd.Context(), app, to)
		},
	}
	cmd.Flags().StringVar(&to.Vault.Address, "vault-address", "", "Address of Vault (default: VAULT_ADDR)")
	cmd.Flags().StringVar(&to.Vault.Mount, "vault-mount", "", "Path of the key/value engine in Vault (default: secret)")
	cmd.Flags().StringVar(&app.NewPasswordFile, "new-password-file", "", "File with the new password of the provider encrypted")
	base.OutputFlag(cmd, app)
	return cmd
}

func parseProvider(flags *pflag.FlagSet, args []string, to *providers.Choice) error {
	dash := flags.ArgsLenAtDash()
	if dash < 0 {
		dash = len(args)
	}
	if dash > 1 || dash == 0 && len(args) > 0 {
		return errors.New("give one provider; a command goes after --")
	}
	to.Command = args[dash:]
	if dash == 1 {
		to.Provider = args[0]
	}
	switch {
	case to.Provider != "" && !slices.Contains(providers.Names(), to.Provider):
		return fmt.Errorf("there is no provider %q%s; there are: %s", to.Provider, settings.Suggest(to.Provider, providers.Names()), strings.Join(providers.Names(), ", "))
	case len(to.Command) > 0 && to.Provider != "command":
		return errors.New("a command after -- is for the provider command")
	case len(to.Command) == 0 && to.Provider == "command":
		return errors.New("give the command after --, for example: thv secret provider command -- pass show")
	case (to.Vault.Address != "" || to.Vault.Mount != "") && to.Provider != "vault":
		return errors.New("--vault-address and --vault-mount are for the provider vault")
	case flags.Changed("new-password-file") && to.Provider != "encrypted":
		return errors.New("--new-password-file is for the provider encrypted")
	}
	return nil
}

func showProvider(app *base.App) error {
	p, err := provider(app)
	if err != nil {
		return err
	}
	about := p.About()
	if app.JSON {
		return render.JSON(app.Out, about)
	}
	can := "read only"
	if about.Writes {
		can = "read and write"
	}
	return render.Table(app.Out, []string{"PROVIDER", "ACCESS", "PLACE", "PROTECTION"}, [][]string{{about.Name, can, about.Place, about.Protects}}, nil)
}

func changeProvider(ctx context.Context, app *base.App, to providers.Choice) error {
	if app.Env(providers.EnvProvider) != "" {
		return base.Usage("%s chooses the provider; unset it first", providers.EnvProvider)
	}
	all, err := app.AllSecrets()
	if err != nil {
		return err
	}
	moved, err := all.Change(ctx, to)
	if err != nil {
		return err
	}
	p, err := all.Provider()
	if err != nil {
		return err
	}
	about := p.About()
	if app.JSON {
		return render.JSON(app.Out, struct {
			secret.About
			providers.Moved
		}{about, moved})
	}
	fmt.Fprintf(app.Err, "The provider is %s (%s)\nIts protection: %s\n", about.Name, plaintext.Line(about.Place), about.Protects)
	if len(moved.Copied) > 0 {
		fmt.Fprintf(app.Err, "Moved: %s\n", strings.Join(moved.Copied, ", "))
	}
	if len(moved.Kept) > 0 {
		fmt.Fprintf(app.Err, "Note: kept where they were, and not used by this provider: %s\n", plaintext.Line(strings.Join(moved.Kept, ", ")))
	}
	fmt.Fprintln(app.Err, "Note: running workloads keep what they were started with; restart those that log in to remote servers")
	return nil
}
