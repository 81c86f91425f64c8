package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// newMCPInfo shows how a server introduces itself, in either era.
func newMCPInfo(app *App, with sessionRunner) *cobra.Command {
	return &cobra.Command{
		Use: "info NAME_OR_URL", Short: "Show what a server says of itself", Args: cobra.ExactArgs(1),
		Long: `Info shows the protocol version that was agreed on, and how the server introduces
itself. The version is that of this connection: a workload's gateway speaks both eras,
whatever the server itself speaks, and translates between them.

Of a workload it also shows what the server itself speaks, with sessions and without,
as the gateway has found out, and whether this connection is translated. With -o json
that is .serverSpeaks, which is as .speaks of thv status.`,
		Example: "  thv mcp info time\n  thv mcp info time --protocol session",
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(func(ctx context.Context, s *sdk.ClientSession, _ []string) error {
				speaks, err := serverSpeaks(ctx, app, args[0])
				if err != nil {
					return err
				}
				return showInfo(app, s.InitializeResult(), speaks)
			})(cmd, args)
		},
	}
}

// serverSpeaks is what the server of a workload speaks itself; nil for a URL.
func serverSpeaks(ctx context.Context, app *App, target string) (*workload.Speaks, error) {
	if isURL(target) {
		return nil, nil
	}
	m, err := app.Manager()
	if err != nil {
		return nil, err
	}
	st, err := m.Status(ctx, target)
	if err != nil {
		return nil, err
	}
	return st.Speaks, nil
}

func showInfo(app *App, said *sdk.InitializeResult, speaks *workload.Speaks) error {
	if app.JSON {
		return writeJSON(app.Out, struct {
			*sdk.InitializeResult
			ServerSpeaks *workload.Speaks `json:"serverSpeaks,omitempty"`
		}{said, speaks})
	}
	rows := [][]string{{"protocol version", said.ProtocolVersion}}
	if speaks != nil {
		rows = append(rows, []string{"server speaks", strings.Join(speech(speaks), "; ")}, []string{"translated", translated(speaks, said.ProtocolVersion)})
	}
	if said.ServerInfo != nil {
		rows = append(rows, []string{"server", strings.TrimSpace(said.ServerInfo.Name + " " + said.ServerInfo.Version)})
	}
	rows = append(rows, []string{"capabilities", strings.Join(capabilities(said.Capabilities), ", ")})
	if !isTerminal(app.Out) {
		if said.Instructions != "" {
			rows = append(rows, []string{"instructions", said.Instructions})
		}
		return table(app.Out, nil, rows, nil)
	}
	if err := table(app.Out, []string{"WHAT", "VALUE"}, rows, nil); err != nil || said.Instructions == "" {
		return err
	}
	_, err := fmt.Fprint(app.Out, "\nINSTRUCTIONS\n")
	return errors.Join(err, showText(app, said.Instructions))
}
