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
	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/oauthclient"
	"github.com/toolhaven/toolhaven/internal/workload"
)

type connectOptions struct {
	app         *base.App
	name        string
	start       bool
	tokenFile   string
	login       bool // and nothing else
	skipBrowser bool
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
session goes on. Connect ends at the end of its input.

A workload that requires access tokens of its clients (--oidc-issuer) gets those of
--token-file, which is read for each request, or of a sign-in with the browser, which is
kept in the secrets store and renewed. --login signs in beforehand.`,
		Example: `  thv connect time
  thv connect time --start
  thv connect guarded --login
  thv connect guarded --token-file ~/token

  # in the configuration of a client
  {"mcpServers": {"time": {"command": "thv", "args": ["connect", "time"]}}}`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return runConnect(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.start, "start", false, "Start the workload if it is stopped")
	f.StringVar(&o.tokenFile, "token-file", "", "File with the access token to send, for a workload that requires one")
	f.BoolVar(&o.login, "login", false, "Sign in at the workload's authorization server, and end")
	f.BoolVar(&o.skipBrowser, "skip-browser", false, "With --login: do not open a browser, and paste the address that one ended at")
	cmd.MarkFlagsMutuallyExclusive("token-file", "login")
	return cmd
}

func runConnect(ctx context.Context, o *connectOptions) error {
	if err := workload.ValidName(o.name); err != nil {
		return base.AsUsage(err)
	}
	if o.skipBrowser && !o.login {
		return base.Usage("--skip-browser needs --login: standard input is the client's")
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
		return fmt.Errorf("workload %q %s; %s", o.name, base.Condition(st), base.Advice(st))
	}
	if o.login && st.Issuer == "" {
		return fmt.Errorf("workload %q requires no access tokens of its clients", o.name)
	}
	if o.login {
		_, err := o.signIn(ctx, st)
		return err
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
	tokens, err := o.tokens(ctx, st, log)
	if err != nil {
		return err
	}
	rt = credential.Transport(rt, tokens...)
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

// tokens returns the credential for the workload's gateway; none if that requires no tokens.
func (o *connectOptions) tokens(ctx context.Context, st *workload.Status, log *slog.Logger) ([]credential.Credential, error) {
	switch {
	case o.tokenFile != "":
		if _, err := netguard.ReadSecret(o.tokenFile); err != nil {
			return nil, base.Usage("--token-file: %w", err)
		}
		return []credential.Credential{credential.Bearer(func() (string, error) { return netguard.ReadSecret(o.tokenFile) })}, nil
	case st.Issuer == "":
		return nil, nil
	}
	login, err := o.signIn(ctx, st)
	if err != nil {
		return nil, err
	}
	signIns, err := o.app.SignIns()
	if err != nil {
		return nil, err
	}
	source, err := signIns.Keyed(login.Key, st.URL)
	if err != nil {
		return nil, err
	}
	return []credential.Credential{credential.NewLogin(source, "thv connect "+o.name+" --login", func() {}, log)}, nil
}

// signIn signs in at the authorization server of the workload's gateway, unless a sign-in is
// kept that the gateway accepts.
func (o *connectOptions) signIn(ctx context.Context, st *workload.Status) (*oauthclient.Login, error) {
	signIns, err := o.app.SignIns()
	if err != nil {
		return nil, err
	}
	r := base.LoginRequest(o.app, &workload.Spec{Remote: &workload.Remote{URL: st.URL}})
	r.Patience = oauthclient.DefaultPatience
	base.HowToSignIn(o.app, &r, "thv connect "+o.name+" --login --skip-browser", o.skipBrowser)
	login, err := signIns.SignIn(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("sign in to %s: %w", st.URL, err)
	}
	if o.login || !login.Reused {
		base.PrintLogin(o.app, login)
	}
	return login, nil
}
