package cli

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
)

func newMCPCall(app *App, with sessionRunner) *cobra.Command {
	var pairs []string
	var object string
	var given *arguments
	cmd := &cobra.Command{
		Use:   "call NAME_OR_URL TOOL",
		Short: "Call a tool",
		Long: `Call calls a tool and prints what it answers. A value of --arg has the type
that the tool's input schema gives it; without one, what is JSON (a number, true, a
list, an object) is passed as such, anything else as text. The exit code is 1 when the
tool reports an error. On a terminal, the tool's progress and its log are shown on
standard error. Into a file or a pipe, text is written as it came, each piece ended by
a line break, and an answer that is one image, sound or binary resource as its bytes.`,
		Example: `  thv mcp call time get_current_time --arg timezone=Europe/Berlin
  thv mcp call everything get-sum --arg a=2 --arg b=3
  thv mcp call files read_file --json '{"path": "/notes/a.txt"}' -o json
  thv mcp call files write_file --json @arguments.json`,
		Args: cobra.ExactArgs(2),
		PreRunE: func(cmd *cobra.Command, _ []string) (err error) {
			given, err = readArguments(cmd.Context(), app.In, pairs, object)
			if cmd.Context().Err() != nil {
				return err
			}
			return asUsage(err)
		},
		RunE: with(func(ctx context.Context, s *sdk.ClientSession, args []string) error {
			request := &sdk.CallToolParams{Name: args[0], Arguments: given.of(ctx, s, args[0])}
			follow(ctx, app, s, request)
			result, err := s.CallTool(ctx, request)
			if err != nil {
				return fmt.Errorf("call %s: %w", args[0], err)
			}
			_ = s.Close() // when it returns, all of the progress and log that came has been shown
			if b := onlyBytes(result.Content); app.JSON {
				err = writeJSON(app.Out, result)
			} else if len(b) > 0 && !isTerminal(app.Out) {
				_, err = app.Out.Write(b)
			} else {
				err = showContent(app, result.Content)
			}
			if err == nil && result.IsError {
				return errToolFailed
			}
			return err
		}),
	}
	cmd.Flags().StringArrayVar(&pairs, "arg", nil, "An argument, format NAME=VALUE; repeatable")
	cmd.Flags().StringVar(&object, "json", "", "All arguments as a JSON object, or @FILE, or - for standard input")
	return cmd
}
