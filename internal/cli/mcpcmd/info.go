package mcpcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func newInfo(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "info NAME_OR_URL", Short: "Show a server's name, versions and capabilities", Args: cobra.ExactArgs(1),
		Long: `Info shows the protocol version that was negotiated, and the server's name, capabilities
and instructions. The version is that of this connection: a workload's gateway serves
both eras, whatever the server itself implements, and translates between them.

Of a workload it also shows the versions of the server itself, with sessions and
without, as far as the gateway has found out, and whether this connection is
translated. With -o json that is .serverSpeaks, the same as .speaks of thv status.`,
		Example: "  thv mcp info time\n  thv mcp info time --protocol session",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.target = args[0]
			return runInfo(cmd.Context(), o)
		},
	}
}

func runInfo(ctx context.Context, o *options) error {
	return o.withSession(ctx, func(ctx context.Context, s *sdk.ClientSession) error {
		// Read after connecting: the connection makes the gateway detect the version.
		speaks, err := serverSpeaks(ctx, o)
		if err != nil {
			return err
		}
		result := s.InitializeResult()
		if o.app.JSON {
			return render.JSON(o.app.Out, struct {
				*sdk.InitializeResult
				ServerSpeaks *workload.Speaks `json:"serverSpeaks,omitempty"`
			}{result, speaks})
		}
		return showInfo(o.app, result, speaks)
	})
}

// serverSpeaks returns the versions of a workload's server itself; nil for a URL.
func serverSpeaks(ctx context.Context, o *options) (*workload.Speaks, error) {
	if isURL(o.target) {
		return nil, nil
	}
	m, err := o.app.Manager()
	if err != nil {
		return nil, err
	}
	st, err := m.Status(ctx, o.target)
	if err != nil {
		return nil, err
	}
	return st.Speaks, nil
}

func showInfo(app *base.App, result *sdk.InitializeResult, speaks *workload.Speaks) error {
	rows := [][]string{{"protocol version", result.ProtocolVersion}}
	if speaks != nil {
		rows = append(rows, []string{"server speaks", strings.Join(base.ServerVersions(speaks), "; ")}, []string{"translated", base.Translated(speaks, result.ProtocolVersion)})
	}
	if result.ServerInfo != nil {
		rows = append(rows, []string{"server", strings.TrimSpace(result.ServerInfo.Name + " " + result.ServerInfo.Version)})
	}
	rows = append(rows, []string{"capabilities", strings.Join(capabilities(result.Capabilities), ", ")})
	if !render.IsTerminal(app.Out) {
		if result.Instructions != "" {
			rows = append(rows, []string{"instructions", result.Instructions})
		}
		return render.Table(app.Out, nil, rows, nil)
	}
	if err := render.Table(app.Out, []string{"WHAT", "VALUE"}, rows, nil); err != nil || result.Instructions == "" {
		return err
	}
	_, err := fmt.Fprint(app.Out, "\nINSTRUCTIONS\n")
	return errors.Join(err, showText(app, result.Instructions))
}

// capabilities returns the names of capabilities, with the parts that are set.
func capabilities(c *sdk.ServerCapabilities) []string {
	var all map[string]map[string]any
	if b, err := json.Marshal(c); err != nil || json.Unmarshal(b, &all) != nil {
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
