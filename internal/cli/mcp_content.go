package cli

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
)

func newMCPRead(app *App, with sessionRunner) *cobra.Command {
	return &cobra.Command{
		Use: "read NAME_OR_URL URI", Short: "Read a resource", Example: "  thv mcp read everything demo://resource/dynamic/text/1", Args: cobra.ExactArgs(2),
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

// newMCPPrompt gets what `thv mcp prompts` lists.
func newMCPPrompt(app *App, with sessionRunner) *cobra.Command {
	var pairs []string
	params := map[string]string{}
	cmd := &cobra.Command{
		Use:     "prompt NAME_OR_URL PROMPT",
		Short:   "Get a prompt",
		Long:    "Prompt gets a prompt and prints its messages, each after the role that speaks it.",
		Example: "  thv mcp prompt everything simple-prompt\n  thv mcp prompt everything args-prompt --arg city=Oslo",
		Args:    cobra.ExactArgs(2),
		PreRunE: func(*cobra.Command, []string) error {
			for _, pair := range pairs {
				name, value, err := argument(pair)
				if err != nil {
					return asUsage(err)
				}
				params[name] = value
			}
			return nil
		},
		RunE: with(func(ctx context.Context, s *sdk.ClientSession, args []string) error {
			result, err := s.GetPrompt(ctx, &sdk.GetPromptParams{Name: args[0], Arguments: params})
			if err != nil {
				return fmt.Errorf("get prompt %s: %w", args[0], err)
			}
			if app.JSON {
				return writeJSON(app.Out, result)
			}
			for _, m := range result.Messages {
				if _, err := fmt.Fprintf(app.Out, "%s: ", oneLine(string(m.Role))); err != nil {
					return err
				}
				if err := showContent(app, []sdk.Content{m.Content}); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().StringArrayVar(&pairs, "arg", nil, "An argument, format NAME=VALUE; repeatable")
	return cmd
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
