package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/plaintext"
)

func newMCPRead(app *App, with sessionRunner) *cobra.Command {
	return &cobra.Command{
		Use: "read NAME_OR_URL URI", Short: "Read a resource", Args: cobra.ExactArgs(2),
		Long: `Read prints a resource. Into a file or a pipe it writes the resource's bytes and
nothing else; on a terminal, it leaves out what is not text.`,
		Example: "  thv mcp read everything demo://resource/dynamic/text/1\n  thv mcp read everything demo://resource/dynamic/blob/1 > one.bin",
		RunE: with(func(ctx context.Context, s *sdk.ClientSession, args []string) error {
			result, err := s.ReadResource(ctx, &sdk.ReadResourceParams{URI: args[0]})
			if err != nil {
				return fmt.Errorf("read %s: %w", args[0], err)
			}
			if app.JSON {
				return writeJSON(app.Out, result)
			}
			for _, c := range result.Contents {
				if err := showResource(app, c); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

// showResource writes a resource as it is, or, on a terminal, what a person can read
// of it.
func showResource(app *App, c *sdk.ResourceContents) error {
	var err error
	switch {
	case !isTerminal(app.Out) && len(c.Blob) > 0:
		_, err = app.Out.Write(c.Blob)
	case !isTerminal(app.Out):
		_, err = io.WriteString(app.Out, c.Text)
	case len(c.Blob) > 0:
		_, err = fmt.Fprintf(app.Out, "[%s, %s; not shown on a terminal, write it to a file]\n", plaintext.Line(c.MIMEType), counted(len(c.Blob), "byte"))
	default:
		err = showText(app, c.Text)
	}
	return err
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
				if _, err := fmt.Fprintf(app.Out, "%s: ", plaintext.Line(string(m.Role))); err != nil {
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

// showContent shows content, each piece on lines of its own.
func showContent(app *App, content []sdk.Content) error {
	for _, c := range content {
		var line string
		switch c := c.(type) {
		case *sdk.TextContent:
			line = c.Text
		case *sdk.ImageContent:
			line = fmt.Sprintf("[image, %s, %s]", plaintext.Line(c.MIMEType), counted(len(c.Data), "byte"))
		case *sdk.AudioContent:
			line = fmt.Sprintf("[audio, %s, %s]", plaintext.Line(c.MIMEType), counted(len(c.Data), "byte"))
		case *sdk.ResourceLink:
			line = fmt.Sprintf("[resource %s]", plaintext.Line(c.URI))
		case *sdk.EmbeddedResource:
			line = fmt.Sprintf("[resource %s]", plaintext.Line(c.Resource.URI))
			if c.Resource.Text != "" {
				line = c.Resource.Text
			}
		default:
			line = fmt.Sprintf("[%T]", c)
		}
		if err := showText(app, line); err != nil {
			return err
		}
	}
	return nil
}

// showText writes text and ends its last line. It is as it came, and on a terminal
// does not steer it.
func showText(app *App, text string) error {
	if isTerminal(app.Out) {
		text = plaintext.Lines(text)
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, err := io.WriteString(app.Out, text)
	return err
}

// onlyBytes are the bytes of content that is one image, sound or binary resource.
func onlyBytes(content []sdk.Content) []byte {
	if len(content) != 1 {
		return nil
	}
	switch c := content[0].(type) {
	case *sdk.ImageContent:
		return c.Data
	case *sdk.AudioContent:
		return c.Data
	case *sdk.EmbeddedResource:
		return c.Resource.Blob
	}
	return nil
}
