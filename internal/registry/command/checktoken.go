package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/auth"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/registry/config"
)

// maxTokenInput bounds what is read from standard input, in bytes.
const maxTokenInput = 64 << 10

func newCheckToken(env Env) *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check-token",
		Short: "Say what this registry would make of a token, without asking anybody",
		Long: `Reads a token on standard input and says, for each configured provider in its
order, what matches and what does not: expected and got, never the token. Nothing
is asked over the network, so a signature, or an opaque token, remains to be
checked by the server. Exits with 1 when no provider can accept the token.`,
		Example: `  thv-registry check-token --config registry.yaml < token
  printf %s "$TOKEN" | thv-registry check-token --config registry.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := load(env, path)
			if err != nil {
				return err
			}
			if cfg.Auth.Mode == config.ModeAnonymous {
				return errors.New("auth.mode is anonymous: no token is looked at")
			}
			content, err := netguard.ReadBounded(env.In, maxTokenInput)
			if err != nil {
				return fmt.Errorf("standard input: %w", err)
			}
			token := strings.TrimSpace(string(content))
			if token == "" {
				return &usageError{errors.New("there is no token on standard input")}
			}
			report := auth.Inspect(token, cfg.Providers(), cfg.Leeway())
			if asJSON {
				err = writeJSON(env.Out, report)
			} else {
				_, err = fmt.Fprintln(env.Out, strings.TrimRight(report.String(), "\n"))
			}
			if err == nil && !report.Possible() {
				err = &reported{errors.New("no provider can accept the token")}
			}
			return err
		},
	}
	configFlag(cmd, &path)
	outputFlag(cmd, &asJSON)
	return cmd
}
