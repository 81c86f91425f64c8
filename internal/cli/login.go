package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/oauthclient"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// loginOptions are the options of login.
type loginOptions struct {
	app         *base.App
	name        string
	skipBrowser bool
	timeout     time.Duration
}

func newLogin(app *base.App) *cobra.Command {
	o := &loginOptions{app: app}
	cmd := &cobra.Command{
		Use:   "login NAME",
		Short: "Log in to the remote server of a workload",
		Long: `Login logs in to the remote server of a workload, in a browser: when its login has
ended (thv list shows "needs login"), when the server requires more scopes, or as another
user. The workload keeps its name, URL and clients, and uses the login without a restart.`,
		Example: `  thv login github
  thv login github --skip-browser`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			if cmd.Flags().Changed("timeout") && o.timeout <= 0 {
				return base.Usage("--timeout %s is not a time to log in", o.timeout)
			}
			return runLogin(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.skipBrowser, "skip-browser", false, "open no browser; read the address that one ended at from standard input")
	cmd.Flags().DurationVar(&o.timeout, "timeout", oauthclient.DefaultPatience, "how long to wait for you to log in")
	base.OutputFlag(cmd, app)
	return cmd
}

// remoteSpec returns the Spec of a workload with a remote server, and the store of sign-ins
// for it.
func remoteSpec(ctx context.Context, app *base.App, name string) (*workload.Spec, *oauthclient.Store, error) {
	store, err := app.Store()
	if err != nil {
		return nil, nil, err
	}
	spec, err := store.Get(name)
	if err != nil {
		return nil, nil, err
	}
	if spec.Remote == nil {
		return nil, nil, base.Usage("%s runs on this machine; only remote servers have a login", name)
	}
	signIns, err := signInsOf(ctx, app, spec)
	return spec, signIns, err
}

// signInsOf returns the store of sign-ins at the remote server of a workload.
func signInsOf(ctx context.Context, app *base.App, spec *workload.Spec) (*oauthclient.Store, error) {
	signIns, err := app.SignIns()
	if err != nil {
		return nil, err
	}
	secrets, err := app.AllSecrets()
	if err != nil {
		return nil, err
	}
	return signIns.WithSecrets(func(ref string) (string, error) { return secrets.Resolve(ctx, ref) }).WithCAFiles(spec.CAFiles()), nil
}

func runLogin(ctx context.Context, o *loginOptions) error {
	spec, signIns, err := remoteSpec(ctx, o.app, o.name)
	if err != nil {
		return err
	}
	if r := spec.Remote; r.Auth == nil && (r.BearerToken != "" || r.BearerTokenFile != "") {
		return base.Usage("%s sends a bearer token, and has no login", o.name)
	}
	r := base.LoginRequest(o.app, spec)
	r.Fresh, r.Force, r.Patience = true, true, o.timeout
	if o.skipBrowser {
		base.HowToSignIn(o.app, &r, "", true)
	}
	had := spec.Remote.Auth != nil // the workload's gateway looks for a login then
	if had && spec.Remote.Auth.Login != "" {
		if source, err := signIns.Keyed(spec.Remote.Auth.Login, spec.Remote.URL); err == nil {
			if wanted := source.Wanted(ctx); len(wanted) > 0 {
				r.Scopes = append(wanted, r.Scopes...)
			}
		}
	} else if !had {
		spec.Remote.Auth = &workload.RemoteAuth{}
	}
	login, err := signIns.SignIn(ctx, r)
	if err != nil {
		return err
	}
	if login.Key != spec.Remote.Auth.Login {
		store, err := o.app.Store()
		if err != nil {
			return err
		}
		spec.Remote.Auth.Login = login.Key
		if err := store.Put(spec); err != nil {
			return err
		}
	}
	if had {
		if err := awaitLogin(ctx, o.app, o.name); err != nil {
			return err
		}
	}
	if o.app.JSON {
		return render.JSON(o.app.Out, struct {
			Name string `json:"name"`
			*oauthclient.Login
		}{o.name, login})
	}
	base.PrintLogin(o.app, login)
	if !had {
		fmt.Fprintf(o.app.Err, "Note: the workload uses the login after `thv restart %s`\n", o.name)
	}
	return nil
}

// maxLoginNotice is how long login waits until the workload's gateway has used the login. It
// does so at its next check of the server.
const maxLoginNotice = 15 * time.Second

// awaitLogin waits until a workload no longer needs a login, so that a command that follows
// finds it running. A workload that does not notice in time is not an error.
func awaitLogin(ctx context.Context, app *base.App, name string) error {
	m, err := app.Manager()
	if err != nil {
		return err
	}
	for end := time.Now().Add(maxLoginNotice); time.Now().Before(end); {
		st, err := m.Status(ctx, name)
		if err != nil {
			return err
		}
		if st.State != workload.NeedsLogin {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

func newLogout(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logout NAME",
		Short: "End the login to a workload's remote server, and thv connect's sign-in at the workload",
		Long: `Logout ends the login to the remote server of a workload: at the authorization server,
if that offers it, and on this machine in any case. Workloads with the same URL and client
share the login. The workload keeps running, and its clients receive an error until thv
login NAME.

It also ends the sign-ins that thv connect made at a workload that requires access tokens of
its clients.`,
		Example: "  thv logout github",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runLogout(cmd.Context(), app, args[0]) },
	}
	base.OutputFlag(cmd, app)
	return cmd
}

func runLogout(ctx context.Context, app *base.App, name string) error {
	store, err := app.Store()
	if err != nil {
		return err
	}
	spec, err := store.Get(name)
	if err != nil {
		return err
	}
	if spec.Remote == nil && spec.Issuer() == "" {
		return base.Usage("%s has no login: it runs on this machine, and requires no access tokens of its clients", name)
	}
	signIns, err := signInsOf(ctx, app, spec)
	if err != nil {
		return err
	}
	var ended []*oauthclient.Logout
	if spec.Remote != nil && spec.Remote.Auth != nil {
		source, err := signIns.Keyed(spec.Remote.Auth.Login, spec.Remote.URL)
		if err != nil {
			return err
		}
		out, err := source.SignOut(ctx)
		if err != nil {
			return err
		}
		if out.Login != nil {
			ended = append(ended, out)
		}
	}
	if spec.Issuer() != "" {
		own, err := app.SignIns() // as connect has it: without the CA files of the remote server
		if err != nil {
			return err
		}
		all, err := own.SignOutAll(ctx, spec.URL())
		if err != nil {
			return err
		}
		ended = append(ended, all...)
	}
	return reportLogout(app, name, ended)
}

// reportLogout prints the sign-ins that ended.
func reportLogout(app *base.App, name string, ended []*oauthclient.Logout) error {
	revoked := len(ended) > 0
	for _, out := range ended {
		base.NoteUnrevoked(app.Err, out)
		revoked = revoked && out.Revoked
	}
	if app.JSON {
		return render.JSON(app.Out, struct {
			Name      string `json:"name"`
			LoggedOut bool   `json:"loggedOut"`
			Revoked   bool   `json:"revoked"`
		}{name, len(ended) > 0, revoked})
	}
	if len(ended) == 0 {
		fmt.Fprintf(app.Err, "%s has no login\n", name)
	}
	for _, out := range ended {
		fmt.Fprintf(app.Err, "logged out of %s\n", plaintext.Line(out.Login.Resource))
	}
	return nil
}
