package mcpcmd

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

type promptOptions struct {
	*options
	prompt string
	pairs  []string
}

func newPrompt(parent *options) *cobra.Command {
	o := &promptOptions{options: parent}
	cmd := &cobra.Command{
		Use:     "prompt NAME_OR_URL PROMPT",
		Short:   "Get a prompt",
		Long:    "Prompt gets a prompt and prints its messages, each after its role.",
		Example: "  thv mcp prompt everything simple-prompt\n  thv mcp prompt everything args-prompt --arg city=Oslo",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.target, o.prompt = args[0], args[1]
			return runPrompt(cmd.Context(), o)
		},
	}
	cmd.Flags().StringArrayVar(&o.pairs, "arg", nil, "An argument, format NAME=VALUE; repeatable")
	return cmd
}

func runPrompt(ctx context.Context, o *promptOptions) error {
	given, err := pairs(o.pairs)
	if err != nil {
		return base.AsUsage(err)
	}
	return o.withSession(ctx, func(ctx context.Context, s *sdk.ClientSession) error {
		result, err := s.GetPrompt(ctx, &sdk.GetPromptParams{Name: o.prompt, Arguments: given})
		if err != nil {
			return fmt.Errorf("get prompt %s: %w", o.prompt, err)
		}
		if o.app.JSON {
			return render.JSON(o.app.Out, result)
		}
		for _, m := range result.Messages {
			if m == nil {
				continue
			}
			if _, err := fmt.Fprintf(o.app.Out, "%s: ", plaintext.Line(string(m.Role))); err != nil {
				return err
			}
			if err := showContent(o.app, []sdk.Content{m.Content}); err != nil {
				return err
			}
		}
		return nil
	})
}
