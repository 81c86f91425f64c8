package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
)

// newMCP is a person's way to try a server: a client of the Model Context
// Protocol in a few commands.
func newMCP(app *App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Try a server: list and call what it offers",
		Long: `Mcp talks to a running workload, or to any MCP server by its URL, as an agent would.

A server may ask back while it works. A form (elicitation) is filled in by you at the
terminal, and declined with a note where there is none; the time you take does not
count for --timeout. A request to a language model (sampling) is declined with a note.
Of the client's directories (roots), there are none.`,
		Example: `  thv mcp tools time
  thv mcp call time get_current_time --arg timezone=Europe/Berlin
  thv mcp resources https://mcp.deepwiki.com/mcp
  thv mcp info time --protocol stateless`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var timeout time.Duration
	var protocol string
	cmd.PersistentFlags().DurationVar(&timeout, "timeout", time.Minute, "How long to wait for the server in all")
	cmd.PersistentFlags().StringVar(&protocol, "protocol", "", "Speak this version of the protocol, such as 2025-11-25, or the newest with sessions (session) or without (stateless); by default the newest that the server speaks")
	with := func(run onSession) func(*cobra.Command, []string) error {
		return func(cmd *cobra.Command, args []string) error {
			version, err := protocolVersion(protocol)
			if err != nil {
				return err
			}
			late := fmt.Errorf("no answer within %s; give it more with --timeout", timeout)
			ctx, waiting, cancel := withPatience(cmd.Context(), timeout, late)
			defer cancel()
			session, err := connect(ctx, &person{app: app, ctx: ctx, waiting: waiting}, args[0], version)
			if err == nil {
				defer session.Close()
				err = run(ctx, session, args[1:])
			}
			if err != nil && errors.Is(context.Cause(ctx), late) {
				return late
			}
			return err
		}
	}
	for _, c := range []*cobra.Command{newMCPInfo(app, with), newMCPTools(app, with), newMCPCall(app, with), newMCPResources(app, with), newMCPRead(app, with), newMCPPrompts(app, with)} {
		outputFlag(c, app)
		cmd.AddCommand(c)
	}
	return cmd
}

// onSession does a command's work; args follow the server's name.
type onSession = func(ctx context.Context, s *sdk.ClientSession, args []string) error

// sessionRunner connects to the server that the first argument names.
type sessionRunner = func(onSession) func(*cobra.Command, []string) error

// newMCPInfo shows how a server introduces itself, in either era.
func newMCPInfo(app *App, with sessionRunner) *cobra.Command {
	return &cobra.Command{
		Use: "info NAME_OR_URL", Short: "Show what a server says of itself", Args: cobra.ExactArgs(1),
		Example: "  thv mcp info time\n  thv mcp info time --protocol session",
		RunE: with(func(_ context.Context, s *sdk.ClientSession, _ []string) error {
			said := s.InitializeResult()
			if app.JSON {
				return writeJSON(app.Out, said)
			}
			rows := [][]string{{"protocol version", said.ProtocolVersion}}
			if said.ServerInfo != nil {
				rows = append(rows, []string{"server", strings.TrimSpace(said.ServerInfo.Name + " " + said.ServerInfo.Version)})
			}
			rows = append(rows, []string{"capabilities", strings.Join(capabilities(said.Capabilities), ", ")})
			if line := firstLine(said.Instructions); line != "" {
				rows = append(rows, []string{"instructions", line})
			}
			return table(app.Out, []string{"WHAT", "VALUE"}, rows, nil)
		}),
	}
}

// capabilities names them, with what they include.
func capabilities(c *sdk.ServerCapabilities) []string {
	b, err := json.Marshal(c)
	var all map[string]map[string]any
	if err != nil || json.Unmarshal(b, &all) != nil {
		return nil
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var parts []string
		for _, part := range slices.Sorted(maps.Keys(all[name])) {
			if all[name][part] != false {
				parts = append(parts, part)
			}
		}
		if len(parts) > 0 {
			name += " (" + strings.Join(parts, ", ") + ")"
		}
		names = append(names, name)
	}
	return names
}

func newMCPTools(app *App, with sessionRunner) *cobra.Command {
	return &cobra.Command{
		Use: "tools NAME_OR_URL", Short: "List a server's tools", Example: "  thv mcp tools time", Args: cobra.ExactArgs(1),
		RunE: with(func(ctx context.Context, s *sdk.ClientSession, _ []string) error {
			tools, err := collect("tools", s.Tools(ctx, nil))
			if err != nil {
				return err
			}
			if app.JSON {
				return writeJSON(app.Out, tools)
			}
			rows := make([][]string, len(tools))
			for i, t := range tools {
				rows[i] = []string{t.Name, arguments(t.InputSchema), firstLine(t.Description)}
			}
			return table(app.Out, []string{"TOOL", "ARGUMENTS", "DESCRIPTION"}, rows, nil)
		}),
	}
}

// arguments names a tool's arguments, the optional ones in brackets.
func arguments(schema any) string {
	b, err := json.Marshal(schema)
	if err != nil {
		return ""
	}
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(b, &s) != nil {
		return ""
	}
	names := append([]string{}, s.Required...)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(s.Required, name) {
			names = append(names, "["+name+"]")
		}
	}
	return strings.Join(names, " ")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(line); len(r) > 100 {
		line = string(r[:97]) + "..."
	}
	return line
}

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

func newMCPResources(app *App, with sessionRunner) *cobra.Command {
	return &cobra.Command{
		Use: "resources NAME_OR_URL", Short: "List a server's resources", Example: "  thv mcp resources everything", Args: cobra.ExactArgs(1),
		RunE: with(func(ctx context.Context, s *sdk.ClientSession, _ []string) error {
			all, err := collect("resources", s.Resources(ctx, nil))
			if err != nil {
				return err
			}
			if app.JSON {
				return writeJSON(app.Out, all)
			}
			rows := make([][]string, len(all))
			for i, r := range all {
				rows[i] = []string{r.URI, r.Name, r.MIMEType, firstLine(r.Description)}
			}
			return table(app.Out, []string{"URI", "NAME", "TYPE", "DESCRIPTION"}, rows, nil)
		}),
	}
}

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

func newMCPPrompts(app *App, with sessionRunner) *cobra.Command {
	return &cobra.Command{
		Use: "prompts NAME_OR_URL", Short: "List a server's prompts", Example: "  thv mcp prompts everything", Args: cobra.ExactArgs(1),
		RunE: with(func(ctx context.Context, s *sdk.ClientSession, _ []string) error {
			all, err := collect("prompts", s.Prompts(ctx, nil))
			if err != nil {
				return err
			}
			if app.JSON {
				return writeJSON(app.Out, all)
			}
			rows := make([][]string, len(all))
			for i, p := range all {
				var names []string
				for _, a := range p.Arguments {
					if a.Required {
						names = append(names, a.Name)
					} else {
						names = append(names, "["+a.Name+"]")
					}
				}
				rows[i] = []string{p.Name, strings.Join(names, " "), firstLine(p.Description)}
			}
			return table(app.Out, []string{"PROMPT", "ARGUMENTS", "DESCRIPTION"}, rows, nil)
		}),
	}
}
