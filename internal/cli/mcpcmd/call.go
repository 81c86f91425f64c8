package mcpcmd

import (
	"context"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
)

// errToolFailed is returned when the result of a tool has isError set.
var errToolFailed = errors.New("the tool reported an error")

type callOptions struct {
	*options
	tool   string
	pairs  []string
	object string
}

func newCall(parent *options) *cobra.Command {
	o := &callOptions{options: parent}
	cmd := &cobra.Command{
		Use:   "call NAME_OR_URL TOOL",
		Short: "Call a tool",
		Long: `Call calls a tool and prints its result. A value of --arg has the type that the
tool's input schema gives it; without one, what is JSON (a number, true, a list, an
object) is sent as such, anything else as text. The exit code is 1 when the tool
reports an error. Into a file or a pipe, text is written unchanged, each piece ended by
a line break, and a result that is one image, sound or binary resource as its bytes.`,
		Example: `  thv mcp call time get_current_time --arg timezone=Europe/Berlin
  thv mcp call everything get-sum --arg a=2 --arg b=3
  thv mcp call files read_file --json '{"path": "/notes/a.txt"}' -o json
  thv mcp call files write_file --json @arguments.json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.target, o.tool = args[0], args[1]
			return runCall(cmd.Context(), o)
		},
	}
	cmd.Flags().StringArrayVar(&o.pairs, "arg", nil, "An argument, format NAME=VALUE; repeatable")
	cmd.Flags().StringVar(&o.object, "json", "", "All arguments as a JSON object, or @FILE, or - for standard input")
	return cmd
}

func runCall(ctx context.Context, o *callOptions) error {
	given, err := pairs(o.pairs)
	arguments := map[string]any{}
	if err == nil && o.object != "" {
		arguments, err = readObject(ctx, o.app.In, o.object)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return base.AsUsage(err)
	}
	return o.withSession(ctx, func(ctx context.Context, s *sdk.ClientSession) error {
		if len(given)+len(arguments) > 0 {
			types := schemas(ctx, s, o.tool)
			for name, value := range given {
				arguments[name] = typed(value, types[name])
			}
		}
		result, err := s.CallTool(ctx, &sdk.CallToolParams{Name: o.tool, Arguments: arguments})
		if err != nil {
			return fmt.Errorf("call %s: %w", o.tool, err)
		}
		if b := onlyBytes(result.Content); o.app.JSON {
			err = render.JSON(o.app.Out, result)
		} else if len(b) > 0 && !render.IsTerminal(o.app.Out) {
			_, err = o.app.Out.Write(b)
		} else {
			err = showContent(o.app, result.Content)
		}
		if err == nil && result.IsError {
			return errToolFailed
		}
		return err
	})
}

// onlyBytes returns the data of content that is one image, sound or binary resource.
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
		if c.Resource != nil {
			return c.Resource.Blob
		}
	}
	return nil
}
