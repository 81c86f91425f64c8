package mcpcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/render"
)

// maxListed bounds how many tools, resources or prompts a server may list.
const maxListed = 10_000

// list completes a command that shows one of a server's lists: as JSON, or as a table.
func list[T any](o *options, cmd *cobra.Command, header []string,
	of func(context.Context, *sdk.ClientSession) iter.Seq2[*T, error], row func(*T) []string,
) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.target = args[0]
		return o.withSession(cmd.Context(), func(ctx context.Context, s *sdk.ClientSession) error {
			all, err := collect(of(ctx, s))
			if err != nil {
				return fmt.Errorf("list %s: %w", cmd.Name(), err)
			}
			if o.app.JSON {
				return render.JSON(o.app.Out, all)
			}
			rows := make([][]string, len(all))
			for i, v := range all {
				rows[i] = row(v)
			}
			return render.Table(o.app.Out, header, rows, nil)
		})
	}
	return cmd
}

// collect reads all pages of a list. Null items, which the schema does not allow, are
// left out.
func collect[T any](items iter.Seq2[*T, error]) ([]*T, error) {
	all := []*T{} // never null in JSON
	for item, err := range items {
		switch {
		case err != nil:
			return nil, err
		case len(all) == maxListed:
			return nil, fmt.Errorf("the server lists more than %d", maxListed)
		case item != nil:
			all = append(all, item)
		}
	}
	return all, nil
}

func newTools(o *options) *cobra.Command {
	return list(o,
		&cobra.Command{Use: "tools NAME_OR_URL", Short: "List a server's tools", Example: "  thv mcp tools time"},
		[]string{"TOOL", "ARGUMENTS", "DESCRIPTION"},
		func(ctx context.Context, s *sdk.ClientSession) iter.Seq2[*sdk.Tool, error] { return s.Tools(ctx, nil) },
		func(t *sdk.Tool) []string {
			return []string{t.Name, parameters(t.InputSchema), render.FirstLine(t.Description)}
		})
}

// parameters lists the names in a tool's input schema, the optional ones in brackets.
func parameters(schema any) string {
	var s struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	if b, err := json.Marshal(schema); err != nil || json.Unmarshal(b, &s) != nil {
		return ""
	}
	names := slices.Clone(s.Required)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(s.Required, name) {
			names = append(names, "["+name+"]")
		}
	}
	return strings.Join(names, " ")
}

func newResources(o *options) *cobra.Command {
	return list(o,
		&cobra.Command{Use: "resources NAME_OR_URL", Short: "List a server's resources", Example: "  thv mcp resources everything"},
		[]string{"URI", "NAME", "TYPE", "DESCRIPTION"},
		func(ctx context.Context, s *sdk.ClientSession) iter.Seq2[*sdk.Resource, error] {
			return s.Resources(ctx, nil)
		},
		func(r *sdk.Resource) []string {
			return []string{r.URI, r.Name, r.MIMEType, render.FirstLine(r.Description)}
		})
}

// newTemplates lists resource templates (MCP server/resources, Resource Templates).
func newTemplates(o *options) *cobra.Command {
	return list(o,
		&cobra.Command{Use: "templates NAME_OR_URL", Short: "List the templates of a server's resources", Example: "  thv mcp templates everything"},
		[]string{"TEMPLATE", "NAME", "TYPE", "DESCRIPTION"},
		func(ctx context.Context, s *sdk.ClientSession) iter.Seq2[*sdk.ResourceTemplate, error] {
			return s.ResourceTemplates(ctx, nil)
		},
		func(r *sdk.ResourceTemplate) []string {
			return []string{r.URITemplate, r.Name, r.MIMEType, render.FirstLine(r.Description)}
		})
}

func newPrompts(o *options) *cobra.Command {
	return list(o,
		&cobra.Command{Use: "prompts NAME_OR_URL", Short: "List a server's prompts", Example: "  thv mcp prompts everything"},
		[]string{"PROMPT", "ARGUMENTS", "DESCRIPTION"},
		func(ctx context.Context, s *sdk.ClientSession) iter.Seq2[*sdk.Prompt, error] {
			return s.Prompts(ctx, nil)
		},
		func(p *sdk.Prompt) []string {
			var names []string
			for _, a := range p.Arguments {
				switch {
				case a == nil:
				case a.Required:
					names = append(names, a.Name)
				default:
					names = append(names, "["+a.Name+"]")
				}
			}
			return []string{p.Name, strings.Join(names, " "), render.FirstLine(p.Description)}
		})
}
