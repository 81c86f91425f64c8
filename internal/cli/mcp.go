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
Of the client's directories (roots), there are none.

A workload's gateway speaks both eras of the protocol to its clients, with sessions and
without, whichever the server itself speaks. --protocol chooses what this client speaks
to the gateway or to the URL; it does not change the server.`,
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
			if timeout <= 0 {
				return usage("--timeout %s is not a time to wait", timeout)
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
	for _, c := range []*cobra.Command{
		newMCPInfo(app, with), newMCPTools(app, with), newMCPCall(app, with), newMCPResources(app, with), newMCPTemplates(app, with),
		newMCPRead(app, with), newMCPPrompts(app, with), newMCPPrompt(app, with),
	} {
		outputFlag(c, app)
		cmd.AddCommand(c)
	}
	return cmd
}

// onSession does a command's work; args follow the server's name.
type onSession = func(ctx context.Context, s *sdk.ClientSession, args []string) error

// sessionRunner connects to the server that the first argument names.
type sessionRunner = func(onSession) func(*cobra.Command, []string) error

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
