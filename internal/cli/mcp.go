package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// newMCP is a person's way to try a server: a client of the Model Context
// Protocol in a few commands.
func newMCP(app *App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Try a server: list and call what it offers",
		Long:  "Mcp talks to a running workload, or to any MCP server by its URL, as an agent would.",
		Example: `  thv mcp tools time
  thv mcp call time get_current_time --arg timezone=Europe/Berlin
  thv mcp resources https://mcp.deepwiki.com/mcp`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var timeout time.Duration
	cmd.PersistentFlags().DurationVar(&timeout, "timeout", time.Minute, "How long to wait in all")
	with := func(run func(context.Context, *sdk.ClientSession) error) func(cmd *cobra.Command, args []string) error {
		return func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("no answer within %s; give it more with --timeout", timeout))
			defer cancel()
			session, err := connect(ctx, app, args[0])
			if err == nil {
				defer session.Close()
				err = run(ctx, session)
			}
			if cause := context.Cause(ctx); err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return cause
			}
			return err
		}
	}
	cmd.AddCommand(newMCPTools(app, with), newMCPCall(app, &timeout), newMCPResources(app, with), newMCPRead(app, &timeout), newMCPPrompts(app, with))
	return cmd
}

type sessionRunner = func(run func(context.Context, *sdk.ClientSession) error) func(*cobra.Command, []string) error

// endpoint is the URL of a running workload, or the URL that was given.
func endpoint(ctx context.Context, app *App, target string) (string, workload.Transport, error) {
	if u, err := url.Parse(target); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return target, "", nil
	}
	m, err := app.Manager()
	if err != nil {
		return "", "", err
	}
	st, err := m.Status(ctx, target)
	if err != nil {
		return "", "", err
	}
	if st.State != workload.Running && st.State != workload.Degraded {
		return "", "", fmt.Errorf("workload %q is %s; start it with `thv start %s`", target, st.State, target)
	}
	return st.URL, workload.Transport(st.ProxyMode), nil
}

// connect tries streamable HTTP first, then HTTP+SSE (MCP basic/transports,
// Backwards Compatibility).
func connect(ctx context.Context, app *App, target string) (*sdk.ClientSession, error) {
	at, mode, err := endpoint(ctx, app, target)
	if err != nil {
		return nil, err
	}
	httpClient := &http.Client{}
	client := sdk.NewClient(&sdk.Implementation{Name: "thv", Version: version}, nil)
	var failed error
	if mode != workload.SSE {
		session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: at, HTTPClient: httpClient, MaxRetries: -1}, nil)
		if err == nil {
			return session, nil
		}
		failed = err
	}
	if mode != workload.StreamableHTTP && ctx.Err() == nil {
		session, err := client.Connect(ctx, &sdk.SSEClientTransport{Endpoint: at, HTTPClient: httpClient}, nil)
		if err == nil {
			return session, nil
		}
		if failed == nil {
			failed = err
		}
	}
	return nil, fmt.Errorf("connect to %s: %w", at, failed)
}

func newMCPTools(app *App, with sessionRunner) *cobra.Command {
	cmd := &cobra.Command{
		Use: "tools NAME_OR_URL", Short: "List a server's tools", Example: "  thv mcp tools time", Args: cobra.ExactArgs(1),
		RunE: with(func(ctx context.Context, s *sdk.ClientSession) error {
			tools := []*sdk.Tool{}
			for t, err := range s.Tools(ctx, nil) {
				if err != nil {
					return fmt.Errorf("list tools: %w", err)
				}
				tools = append(tools, t)
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
	outputFlag(cmd, app)
	return cmd
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

func newMCPCall(app *App, timeout *time.Duration) *cobra.Command {
	var pairs []string
	var object string
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
		RunE: func(cmd *cobra.Command, args []string) error {
			params, err := callArguments(pairs, object)
			if err != nil {
				return asUsage(err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
			defer cancel()
			session, err := connect(ctx, app, args[0])
			if err != nil {
				return err
			}
			defer session.Close()
			result, err := session.CallTool(ctx, &sdk.CallToolParams{Name: args[1], Arguments: params})
			if err != nil {
				return fmt.Errorf("call %s: %w", args[1], err)
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
		},
	}
	cmd.Flags().StringArrayVar(&pairs, "arg", nil, "An argument, format NAME=VALUE; repeatable")
	cmd.Flags().StringVar(&object, "json", "", "All arguments as a JSON object")
	outputFlag(cmd, app)
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
	cmd := &cobra.Command{
		Use: "resources NAME_OR_URL", Short: "List a server's resources", Example: "  thv mcp resources everything", Args: cobra.ExactArgs(1),
		RunE: with(func(ctx context.Context, s *sdk.ClientSession) error {
			all := []*sdk.Resource{}
			for r, err := range s.Resources(ctx, nil) {
				if err != nil {
					return fmt.Errorf("list resources: %w", err)
				}
				all = append(all, r)
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
	outputFlag(cmd, app)
	return cmd
}

func newMCPRead(app *App, timeout *time.Duration) *cobra.Command {
	cmd := &cobra.Command{
		Use: "read NAME_OR_URL URI", Short: "Read a resource", Example: "  thv mcp read everything demo://resource/static/1", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
			defer cancel()
			session, err := connect(ctx, app, args[0])
			if err != nil {
				return err
			}
			defer session.Close()
			result, err := session.ReadResource(ctx, &sdk.ReadResourceParams{URI: args[1]})
			if err != nil {
				return fmt.Errorf("read %s: %w", args[1], err)
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
		},
	}
	outputFlag(cmd, app)
	return cmd
}

func newMCPPrompts(app *App, with sessionRunner) *cobra.Command {
	cmd := &cobra.Command{
		Use: "prompts NAME_OR_URL", Short: "List a server's prompts", Example: "  thv mcp prompts everything", Args: cobra.ExactArgs(1),
		RunE: with(func(ctx context.Context, s *sdk.ClientSession) error {
			all := []*sdk.Prompt{}
			for p, err := range s.Prompts(ctx, nil) {
				if err != nil {
					return fmt.Errorf("list prompts: %w", err)
				}
				all = append(all, p)
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
	outputFlag(cmd, app)
	return cmd
}
