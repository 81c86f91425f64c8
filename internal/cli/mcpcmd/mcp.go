// Package mcpcmd implements `thv mcp`: an MCP client with which a person tries a
// server. One file holds one command or one concern: how a server is reached
// (connect.go), how its errors are shown (fault.go), how its questions are answered
// (elicit.go).
package mcpcmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
)

// options are common to all commands of `thv mcp`.
type options struct {
	app      *base.App
	target   string // a workload's name, or a URL
	timeout  time.Duration
	protocol string // of --protocol; "" is the newest that the server has
	// tokenFile holds the access token that is sent; "" is none.
	tokenFile string
}

// New returns the command `mcp`.
func New(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Try a server: list and call what it offers",
		Long: `Mcp is a client for a running workload, or for any MCP server by its URL.

A server may send a question (elicitation) while it works on a request. You answer it
at the terminal; without a terminal it is declined, with a note on standard error.

A workload's gateway serves clients of both protocol eras, with sessions and without,
whichever the server itself implements. --protocol chooses the version between this
client and the gateway or the URL; it does not change the server.

A workload with --oidc-issuer requires an access token: --token-file names a file that has
one. The token is sent to the workload or URL itself only, over HTTPS or on this machine.`,
		Example: `  thv mcp tools time
  thv mcp call time get_current_time --arg timezone=Europe/Berlin
  thv mcp resources https://mcp.deepwiki.com/mcp
  thv mcp info time --protocol stateless
  thv mcp tools guarded --token-file ~/token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	o := &options{app: app}
	cmd.PersistentFlags().DurationVar(&o.timeout, "timeout", time.Minute, "How long to wait for the server; begins anew after each of your answers")
	cmd.PersistentFlags().StringVar(&o.protocol, "protocol", "", "Protocol version, such as 2025-11-25, or the newest with sessions (session) or without (stateless); by default the newest that the server supports")
	cmd.PersistentFlags().StringVar(&o.tokenFile, "token-file", "", "File with the access token to send, for a workload or server that requires one")
	for _, c := range []*cobra.Command{
		newInfo(o), newTools(o), newCall(o), newResources(o), newTemplates(o), newRead(o), newPrompts(o), newPrompt(o),
	} {
		base.OutputFlag(c, app)
		cmd.AddCommand(c)
	}
	return cmd
}

// withSession connects to the target, executes use and closes the session. When the
// server takes longer than the timeout, the error names the flag.
func (o *options) withSession(ctx context.Context, use func(context.Context, *sdk.ClientSession) error) error {
	version, err := protocolVersion(o.protocol)
	if err != nil {
		return err
	}
	if o.timeout <= 0 {
		return base.Usage("--timeout must be longer than 0, not %s", o.timeout)
	}
	late := fmt.Errorf("no answer within %s; --timeout sets a longer time", o.timeout)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(o.timeout, func() { cancel(late) })
	defer timer.Stop()
	session, err := connect(ctx, o, version, &elicitor{
		app: o.app, ctx: ctx,
		pause:  func() { timer.Stop() },
		resume: func() { timer.Reset(o.timeout) },
	})
	if err == nil {
		defer session.Close()
		err = use(ctx, session)
	}
	if err != nil && errors.Is(context.Cause(ctx), late) {
		return late
	}
	return err
}
