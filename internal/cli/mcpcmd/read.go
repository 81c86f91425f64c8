package mcpcmd

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/render"
)

type readOptions struct {
	*options
	uri string
}

func newRead(parent *options) *cobra.Command {
	o := &readOptions{options: parent}
	return &cobra.Command{
		Use: "read NAME_OR_URL URI", Short: "Read a resource", Args: cobra.ExactArgs(2),
		Long: `Read prints a resource. Into a file or a pipe it writes the resource's bytes and
nothing else; on a terminal, it leaves out what is not text.`,
		Example: "  thv mcp read everything demo://resource/dynamic/text/1\n  thv mcp read everything demo://resource/dynamic/blob/1 > one.bin",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.target, o.uri = args[0], args[1]
			return runRead(cmd.Context(), o)
		},
	}
}

func runRead(ctx context.Context, o *readOptions) error {
	return o.withSession(ctx, func(ctx context.Context, s *sdk.ClientSession) error {
		result, err := s.ReadResource(ctx, &sdk.ReadResourceParams{URI: o.uri})
		if err != nil {
			return fmt.Errorf("read %s: %w", o.uri, err)
		}
		if o.app.JSON {
			return render.JSON(o.app.Out, result)
		}
		for _, c := range result.Contents {
			if c == nil {
				continue
			}
			if err := showResource(o.app, c); err != nil {
				return err
			}
		}
		return nil
	})
}
