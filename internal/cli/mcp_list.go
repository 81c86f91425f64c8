package cli

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
)

// list is a command that shows what a server has many of: as JSON, or a row for each.
func list[T any](app *App, with sessionRunner, cmd *cobra.Command, header []string,
	of func(context.Context, *sdk.ClientSession) iter.Seq2[T, error], row func(T) []string,
) *cobra.Command {
	name, _, _ := strings.Cut(cmd.Use, " ")
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = with(func(ctx context.Context, s *sdk.ClientSession, _ []string) error {
		all, err := collect(name, of(ctx, s))
		if err != nil {
			return err
		}
		if app.JSON {
			return writeJSON(app.Out, all)
		}
		rows := make([][]string, len(all))
		for i, v := range all {
			rows[i] = row(v)
		}
		return table(app.Out, header, rows, nil)
	})
	return cmd
}

func newMCPTools(app *App, with sessionRunner) *cobra.Command {
	return list(app, with,
		&cobra.Command{Use: "tools NAME_OR_URL", Short: "List a server's tools", Example: "  thv mcp tools time"},
		[]string{"TOOL", "ARGUMENTS", "DESCRIPTION"},
		func(ctx context.Context, s *sdk.ClientSession) iter.Seq2[*sdk.Tool, error] { return s.Tools(ctx, nil) },
		func(t *sdk.Tool) []string {
			return []string{t.Name, parameters(t.InputSchema), firstLine(t.Description)}
		})
}

// parameters names a tool's arguments, the optional ones in brackets.
func parameters(schema any) string {
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

func newMCPResources(app *App, with sessionRunner) *cobra.Command {
	return list(app, with,
		&cobra.Command{Use: "resources NAME_OR_URL", Short: "List a server's resources", Example: "  thv mcp resources everything"},
		[]string{"URI", "NAME", "TYPE", "DESCRIPTION"},
		func(ctx context.Context, s *sdk.ClientSession) iter.Seq2[*sdk.Resource, error] {
			return s.Resources(ctx, nil)
		},
		func(r *sdk.Resource) []string { return []string{r.URI, r.Name, r.MIMEType, firstLine(r.Description)} })
}

// newMCPTemplates lists what stands for many resources (MCP server/resources,
// Resource Templates).
func newMCPTemplates(app *App, with sessionRunner) *cobra.Command {
	return list(app, with,
		&cobra.Command{Use: "templates NAME_OR_URL", Short: "List the templates of a server's resources", Example: "  thv mcp templates everything"},
		[]string{"TEMPLATE", "NAME", "TYPE", "DESCRIPTION"},
		func(ctx context.Context, s *sdk.ClientSession) iter.Seq2[*sdk.ResourceTemplate, error] {
			return s.ResourceTemplates(ctx, nil)
		},
		func(r *sdk.ResourceTemplate) []string {
			return []string{r.URITemplate, r.Name, r.MIMEType, firstLine(r.Description)}
		})
}

func newMCPPrompts(app *App, with sessionRunner) *cobra.Command {
	return list(app, with,
		&cobra.Command{Use: "prompts NAME_OR_URL", Short: "List a server's prompts", Example: "  thv mcp prompts everything"},
		[]string{"PROMPT", "ARGUMENTS", "DESCRIPTION"},
		func(ctx context.Context, s *sdk.ClientSession) iter.Seq2[*sdk.Prompt, error] {
			return s.Prompts(ctx, nil)
		},
		func(p *sdk.Prompt) []string {
			var names []string
			for _, a := range p.Arguments {
				if a.Required {
					names = append(names, a.Name)
				} else {
					names = append(names, "["+a.Name+"]")
				}
			}
			return []string{p.Name, strings.Join(names, " "), firstLine(p.Description)}
		})
}
