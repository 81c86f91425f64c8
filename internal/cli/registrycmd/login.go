package registrycmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/oauthclient"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/registry"
)

// EnvRegistryClientSecret holds the secret of the client that --client-id names.
const EnvRegistryClientSecret = "THV_REGISTRY_CLIENT_SECRET"

type loginOptions struct {
	app              *base.App
	skipBrowser      bool
	callbackPort     int
	timeout          time.Duration
	issuer           string
	clientID         string
	clientSecretFile string
	scopes           []string
}

func newLogin(app *base.App) *cobra.Command {
	opt := &loginOptions{app: app}
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Sign in to the registry",
		Long: `Sign in to the registry, in a browser.

The registry names its authorization server; only the URL of the registry is needed,
which ` + "`thv config set-registry URL`" + ` chooses. The address to open is printed, too;
with --skip-browser no browser is opened, and the address at which a browser on any
machine ended is read from standard input. The sign-in is stored in the state directory,
for this user only, and renewed as long as the authorization server allows.

A registry on the internet cannot make this machine contact an authorization server in a
private network; name such a server with --issuer.

If the authorization server does not let clients register themselves, an
administrator registers one (a native application with the redirect URI
http://127.0.0.1/callback, or with a port that --callback-port then gives), and
--client-id names it. A secret of that client is read from --client-secret-file or
from the variable ` + EnvRegistryClientSecret + `, whenever it is needed.`,
		Example: `  thv registry login
  thv registry login --skip-browser
  thv registry login --client-id 1a2b3c --callback-port 8666
  thv registry login --issuer https://login.example.com --scopes mcp-registry:read`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLogin(cmd.Context(), opt) },
	}
	f := cmd.Flags()
	f.BoolVar(&opt.skipBrowser, "skip-browser", false, "open no browser; read the address that one ended at from standard input")
	f.IntVar(&opt.callbackPort, "callback-port", 0, "port of this machine that the browser comes back to (default any free one)")
	f.DurationVar(&opt.timeout, "timeout", oauthclient.DefaultPatience, "how long to wait for you to sign in")
	f.StringVar(&opt.issuer, "issuer", "", "authorization server to sign in at, if the registry accepts several (default its first)")
	f.StringVar(&opt.clientID, "client-id", "", "client that an administrator registered (default one that registers itself)")
	f.StringVar(&opt.clientSecretFile, "client-secret-file", "", "file with the secret of that client")
	f.StringSliceVar(&opt.scopes, "scopes", nil, "scopes to request (default those that the registry names)")
	base.OutputFlag(cmd, app)
	return cmd
}

// request validates the flags.
func (o *loginOptions) request() (oauthclient.Request, error) {
	var errs []error
	if o.callbackPort < 0 || o.callbackPort > 65535 {
		errs = append(errs, fmt.Errorf("--callback-port %d is not a port", o.callbackPort))
	}
	if o.timeout <= 0 {
		errs = append(errs, fmt.Errorf("--timeout %s is not a time to sign in", o.timeout))
	}
	if o.clientSecretFile != "" && o.clientID == "" {
		errs = append(errs, errors.New("--client-secret-file needs --client-id"))
	}
	r := oauthclient.Request{
		Issuer: o.issuer, Scopes: o.scopes, CallbackPort: o.callbackPort, Patience: o.timeout,
		Client: oauthclient.Registered{ID: o.clientID, SecretFile: o.clientSecretFile},
	}
	if o.clientID != "" && o.clientSecretFile == "" && o.app.Env(EnvRegistryClientSecret) != "" {
		r.Client.SecretEnv = EnvRegistryClientSecret
	}
	return r, base.AsUsage(errors.Join(errs...))
}

// shownLogin is the result in the form of -o json.
type shownLogin struct {
	Registry string `json:"registry"`
	SignedIn bool   `json:"signedIn"`
	// Needed is false when the registry requires no sign-in.
	Needed bool `json:"needed"`
	*oauthclient.Login
}

func runLogin(ctx context.Context, opt *loginOptions) error {
	app := opt.app
	r, err := opt.request()
	if err != nil {
		return err
	}
	location, target, page, err := configuredRegistry(app)
	if err != nil {
		return err
	}
	store, err := app.SignIns()
	if err != nil {
		return err
	}
	if target == "" {
		return notNeeded(app, location)
	}
	for _, name := range []string{base.EnvRegistryToken, base.EnvRegistryTokenFile} {
		if app.Env(name) != "" {
			fmt.Fprintf(app.Err, "note: %s is set, and is used instead of a sign-in\n", name)
		}
	}
	r.Target, r.Probe = target, page
	base.HowToSignIn(app, &r, "--skip-browser", opt.skipBrowser)
	login, err := store.SignIn(ctx, r)
	switch {
	case errors.Is(err, oauthclient.ErrOpen):
		return notNeeded(app, location)
	case errors.Is(err, context.Canceled):
		return err
	case err != nil:
		return fmt.Errorf("registry %s: %w", location, err)
	}
	if app.JSON {
		return render.JSON(app.Out, shownLogin{Registry: location, SignedIn: true, Needed: true, Login: login})
	}
	fmt.Fprintf(app.Err, "signed in to %s at %s\n", plaintext.Line(login.Resource), plaintext.Line(login.Issuer))
	if !login.Renews && !login.Expires.IsZero() {
		fmt.Fprintf(app.Err, "note: the sign-in ends at %s; the authorization server does not let it be renewed\n", login.Expires.Local().Format(time.DateTime))
	}
	return nil
}

// configuredRegistry returns the location of the configured registry, and the target and
// the page of a sign-in; both are "" when none is possible.
func configuredRegistry(app *base.App) (location, target, page string, err error) {
	cfg, err := app.Config()
	if err != nil {
		return "", "", "", err
	}
	if location = cfg.Registry; location == "" {
		location = registry.BuiltIn
	}
	target, page, err = registry.Protected(cfg.Registry)
	return location, target, page, err
}

func notNeeded(app *base.App, location string) error {
	if app.JSON {
		return render.JSON(app.Out, shownLogin{Registry: location})
	}
	fmt.Fprintf(app.Err, "registry %s: no sign-in is needed\n", location)
	return nil
}

func newLogout(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logout",
		Short: "End the sign-in to the registry",
		Long: `End the sign-in to the registry: at the authorization server, if that offers it,
and on this machine in any case.`,
		Example: "  thv registry logout",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runLogout(cmd.Context(), app) },
	}
	base.OutputFlag(cmd, app)
	return cmd
}

func runLogout(ctx context.Context, app *base.App) error {
	location, target, _, err := configuredRegistry(app)
	if err != nil {
		return err
	}
	store, err := app.SignIns()
	if err != nil {
		return err
	}
	out := &oauthclient.Logout{}
	if target != "" {
		if out, err = store.SignOut(ctx, target); err != nil {
			return fmt.Errorf("registry %s: %w", location, err)
		}
	}
	base.NoteUnrevoked(app.Err, out)
	if app.JSON {
		return render.JSON(app.Out, struct {
			Registry  string `json:"registry"`
			SignedOut bool   `json:"signedOut"`
			Revoked   bool   `json:"revoked"`
		}{location, out.Login != nil, out.Revoked})
	}
	if out.Login == nil {
		fmt.Fprintf(app.Err, "registry %s: there is no sign-in\n", location)
		return nil
	}
	fmt.Fprintf(app.Err, "signed out of %s\n", plaintext.Line(out.Login.Resource))
	return nil
}
