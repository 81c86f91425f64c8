package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/bridge"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/workload"
)

type connectOptions struct {
	app   *base.App
	name  string
	start bool
}

func newConnect(app *base.App) *cobra.Command {
	o := &connectOptions{app: app}
	cmd := &cobra.Command{
		Use:   "connect NAME",
		Short: "Connect a client that starts its servers as programs to a workload",
		Long: `Connect is an MCP server on standard input and output that passes every message on to a
running workload. It is for clients that cannot connect to a URL; thv client setup writes
it into their configuration. It speaks both eras of the protocol, as the workload's URL
does. Nothing but messages is written to standard output.

The workload has to run; --start starts it if it is stopped. When it is restarted, the
session goes on. Connect ends at the end of its input. A workload that requires access
tokens of its clients cannot be reached in this way.`,
		Example: `  thv connect time
  thv connect time --start

  # in the configuration of a client
  {"mcpServers": {"time": {"command": "thv", "args": ["connect", "time"]}}}`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return runConnect(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.start, "start", false, "Start the workload if it is stopped")
	return cmd
}

func runConnect(ctx context.Context, o *connectOptions) error {
	if err := workload.ValidName(o.name); err != nil {
		return base.AsUsage(err)
	}
	m, err := o.app.Manager()
	if err != nil {
		return err
	}
	st, err := o.running(ctx, m)
	if err != nil {
		return err
	}
	if !base.Serves(st) {
		return fmt.Errorf("workload %q is %s; %s", o.name, st.State, base.Advice(st))
	}
	if st.Issuer != "" {
		return fmt.Errorf("workload %q requires access tokens of %s, which a program on standard input and output does not have; connect to its URL: %s", o.name, st.Issuer, st.URL)
	}
	rt, err := netguard.Transport(netguard.Options{AllowPrivate: true, AllowLoopback: true, AllowHTTP: true})
	if err != nil {
		return err
	}
	level := slog.LevelWarn
	if o.app.Debug {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(o.app.Err, &slog.HandlerOptions{Level: level}))
	var to exchange.Backend
	if st.ProxyMode == string(workload.SSE) {
		to = backend.NewSSE(backend.SSEConfig{URL: st.URL, Transport: rt, Log: log})
	} else {
		to = backend.NewStreamable(backend.StreamableConfig{URL: st.URL, Transport: rt, Log: log})
	}
	// A client that is gone is an error of writing, after which the session is ended.
	signal.Ignore(syscall.SIGPIPE)
	return bridge.New(to, o.app.Out, log).Run(ctx, o.app.In)
}

// running returns the status of the workload, which is started first with --start.
func (o *connectOptions) running(ctx context.Context, m *manager.Manager) (*workload.Status, error) {
	st, err := m.Status(ctx, o.name)
	if err != nil || !o.start || st.State != workload.Stopped && st.State != workload.Failed {
		return st, err
	}
	p := render.NewProgress(o.app.Err, o.app.Env)
	defer p.Done()
	st, err = m.Start(ctx, o.name, p.Event)
	if errors.Is(err, manager.ErrAlreadyRunning) {
		return m.Status(ctx, o.name)
	}
	return st, err
}
