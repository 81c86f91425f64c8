package command

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/operator/admission"
	"github.com/toolhaven/toolhaven/internal/operator/convert"
)

func newConvert(env Env) *cobra.Command {
	return &cobra.Command{
		Use:   "convert FILE",
		Short: "Convert manifests of ToolHive's operator",
		Long: `Reads manifests with kinds of toolhive.stacklok.dev and writes them with ours to
standard output: most of it is the group. What has no counterpart is left out, and
each such field is a line on standard error, as is what the API server will refuse.
Resources of other groups are written as they are. FILE is YAML or JSON, of one or more documents; - is standard input.`,
		Example: `  thv-operator convert servers.yaml > toolhaven.yaml
  kubectl get mcpservers.toolhive.stacklok.dev -A -o yaml | thv-operator convert - | kubectl apply -f -`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			in := env.In
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer file.Close()
				in = file
			}
			return convertFile(env, args[0], in)
		},
	}
}

func convertFile(env Env, name string, in io.Reader) error {
	notes, err := convert.Convert(in, env.Out, admission.Validate)
	for _, note := range notes {
		fmt.Fprintln(env.Err, note)
	}
	if err != nil {
		return fmt.Errorf("convert %s: %w", name, err)
	}
	return nil
}
