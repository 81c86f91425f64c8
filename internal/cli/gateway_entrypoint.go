package cli

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/entrypoint"
)

// newEntryPoint returns the command of an init container: it alone has the pull secrets of a
// pod.
func newEntryPoint(app *base.App) *cobra.Command {
	var image, secrets, to, caFile string
	var withArguments, allowLoopback bool
	cmd := &cobra.Command{
		Use:   "entry-point --image IMAGE --to FILE",
		Short: "Write the program of an image to a file, as a JSON array",
		Long: `Entry-point reads the program of an image from the image's registry, with the passwords of
pull secrets, and writes it to a file, where the guest of a stdio server reads it. The operator
starts it in an init container: the operator itself has no passwords.`,
		Example: "  thv gateway entry-point --image registry.example/team/server:1 --pull-secrets /etc/thv/pull --to /thv/program",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opt := entrypoint.Options{AllowPrivate: true, AllowLoopback: allowLoopback, PullSecrets: secrets}
			if caFile != "" {
				opt.CAFiles = []string{caFile}
			}
			registry, err := entrypoint.New(opt)
			if err != nil {
				return err
			}
			program, err := registry.EntryPoint(cmd.Context(), image, withArguments)
			if err != nil {
				return fmt.Errorf("the program of the image %s is not known: %w; give spec.command", image, err)
			}
			content, err := json.Marshal(program)
			if err != nil {
				return err
			}
			// The server's container has another user.
			if err := os.WriteFile(to, content, 0o644); err != nil { //nolint:gosec // it is no secret
				return err
			}
			fmt.Fprintf(app.Err, "the program of %s is %s\n", image, content)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&image, "image", "", "Image whose program is looked up")
	f.StringVar(&secrets, "pull-secrets", "", "Directory with a directory for each pull secret")
	f.StringVar(&to, "to", "", "File to write")
	f.StringVar(&caFile, "ca-file", "", "PEM file of authorities that are trusted beside the system's")
	f.BoolVar(&withArguments, "with-arguments", false, "Leave the image's default arguments out: the server has others")
	f.BoolVar(&allowLoopback, "allow-loopback", false, "Permit a registry on this machine")
	for _, name := range []string{"image", "to"} {
		_ = cmd.MarkFlagRequired(name) // the flag exists
	}
	return cmd
}
