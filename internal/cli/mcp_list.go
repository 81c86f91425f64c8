package cli

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
)

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
				rows[i] = []string{t.Name, parameters(t.InputSchema), firstLine(t.Description)}
			}
			return table(app.Out, []string{"TOOL", "ARGUMENTS", "DESCRIPTION"}, rows, nil)
		}),
	}
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

// newMCPTemplates lists what stands for many resources (MCP server/resources,
// Resource Templates).
func newMCPTemplates(app *App, with sessionRunner) *cobra.Command {
	return &cobra.Command{
		Use: "templates NAME_OR_URL", Short: "List the templates of a server's resources", Example: "  thv mcp templates everything", Args: cobra.ExactArgs(1),
		RunE: with(func(ctx context.Context, s *sdk.ClientSession, _ []string) error {
			all, err := collect("resource templates", s.ResourceTemplates(ctx, nil))
			if err != nil {
				return err
			}
			if app.JSON {
				return writeJSON(app.Out, all)
			}
			rows := make([][]string, len(all))
			for i, r := range all {
				rows[i] = []string{r.URITemplate, r.Name, r.MIMEType, firstLine(r.Description)}
			}
			return table(app.Out, []string{"TEMPLATE", "NAME", "TYPE", "DESCRIPTION"}, rows, nil)
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
