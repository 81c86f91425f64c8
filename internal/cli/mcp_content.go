package cli

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
)

func newMCPRead(app *App, with sessionRunner) *cobra.Command {
	return &cobra.Command{
		Use: "read NAME_OR_URL URI", Short: "Read a resource", Example: "  thv mcp read everything demo://resource/static/1", Args: cobra.ExactArgs(2),
		RunE: with(func(ctx context.Context, s *sdk.ClientSession, args []string) error {
			result, err := s.ReadResource(ctx, &sdk.ReadResourceParams{URI: args[0]})
			if err != nil {
				return fmt.Errorf("read %s: %w", args[0], err)
			}
			if app.JSON {
				return writeJSON(app.Out, result)
			}
			for _, c := range result.Contents {
				text := c.Text
				if text == "" && len(c.Blob) > 0 {
					text = fmt.Sprintf("[%s, %d bytes]", c.MIMEType, len(c.Blob))
				}
				if _, err := fmt.Fprintln(app.Out, printable(text)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

func showContent(app *App, content []sdk.Content) error {
	for _, c := range content {
		var line string
		switch c := c.(type) {
		case *sdk.TextContent:
			line = c.Text
		case *sdk.ImageContent:
			line = fmt.Sprintf("[image, %s, %d bytes]", c.MIMEType, len(c.Data))
		case *sdk.AudioContent:
			line = fmt.Sprintf("[audio, %s, %d bytes]", c.MIMEType, len(c.Data))
		case *sdk.ResourceLink:
			line = fmt.Sprintf("[resource %s]", c.URI)
		case *sdk.EmbeddedResource:
			line = fmt.Sprintf("[resource %s]", c.Resource.URI)
			if c.Resource.Text != "" {
				line = c.Resource.Text
			}
		default:
			line = fmt.Sprintf("[%T]", c)
		}
		if _, err := fmt.Fprintln(app.Out, printable(line)); err != nil {
			return err
		}
	}
	return nil
}
