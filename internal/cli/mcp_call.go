package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
)

func newMCPCall(app *App, with sessionRunner) *cobra.Command {
	var pairs []string
	var object string
	var params map[string]any
	cmd := &cobra.Command{
		Use:   "call NAME_OR_URL TOOL",
		Short: "Call a tool",
		Long: `Call calls a tool and prints what it answers. A value of --arg that is JSON (a
number, true, a list, an object) is passed as such, anything else as text. The exit
code is 1 when the tool reports an error.`,
		Example: `  thv mcp call time get_current_time --arg timezone=Europe/Berlin
  thv mcp call everything get-sum --arg a=2 --arg b=3
  thv mcp call files read_file --json '{"path": "/notes/a.txt"}' -o json`,
		Args: cobra.ExactArgs(2),
		PreRunE: func(*cobra.Command, []string) (err error) {
			params, err = callArguments(pairs, object)
			return asUsage(err)
		},
		RunE: with(func(ctx context.Context, s *sdk.ClientSession, args []string) error {
			result, err := s.CallTool(ctx, &sdk.CallToolParams{Name: args[0], Arguments: params})
			if err != nil {
				return fmt.Errorf("call %s: %w", args[0], err)
			}
			if app.JSON {
				err = writeJSON(app.Out, result)
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
	cmd.Flags().StringVar(&object, "json", "", "All arguments as a JSON object")
	return cmd
}

func callArguments(pairs []string, object string) (map[string]any, error) {
	params := map[string]any{}
	if object != "" {
		if err := json.Unmarshal([]byte(object), &params); err != nil || params == nil {
			return nil, errors.New("--json: it is not a JSON object")
		}
	}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--arg %s: write NAME=VALUE", pair)
		}
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			v = text
		}
		params[name] = v
	}
	return params, nil
}
