package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/oauthclient"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// settleRemote logs in at a remote server that requires it, in this process, before
// anything is stored, and determines the server's transport. A server that accepts only the
// exchanged tokens of callers receives nothing: there is no caller yet.
func (o *options) settleRemote(ctx context.Context, d *draft) error {
	s := d.spec
	signIns, err := o.signIns(ctx, d)
	if err != nil {
		return err
	}
	if a := s.Remote.Auth; a != nil {
		withImportedLogin(o, a)
		if a.Required {
			if err := o.login(ctx, d, signIns, true); err != nil {
				return err
			}
		}
	}
	if s.Transport != "" || workload.PerCaller(s) {
		s.Transport = cmp.Or(s.Transport, workload.StreamableHTTP)
		if o.mayLogIn(s) && signIns.Protected(ctx, base.LoginRequest(o.app, s)) {
			return o.login(ctx, d, signIns, false)
		}
		return nil
	}
	o.progress.Event(manager.Event{Stage: "server", Message: "detecting the transport of " + s.Remote.URL})
	challenged, err := o.detect(ctx, d, signIns)
	if refused := new(wire.StatusError); errors.As(err, &refused) && refused.Status == http.StatusUnauthorized {
		challenged = true
	}
	if challenged && o.mayLogIn(s) {
		failed := o.login(ctx, d, signIns, false)
		if failed == nil {
			_, err = o.detect(ctx, d, signIns)
		} else if !errors.Is(failed, oauthclient.ErrOpen) {
			return failed
		}
	}
	if err != nil {
		return fmt.Errorf("%s does not answer as an MCP server: %w", s.Remote.URL, err)
	}
	return nil
}

// signIns returns the store of sign-ins, with the draft's secrets.
func (o *options) signIns(ctx context.Context, d *draft) (*oauthclient.Store, error) {
	signIns, err := o.app.SignIns()
	if err != nil {
		return nil, err
	}
	return signIns.WithSecrets(o.secretOf(ctx, d)).WithCAFiles(d.spec.CAFiles()), nil
}

// withImportedLogin sets what may be given with --from-config, and removes the login of the
// machine that the file is from: it is found again by what it is for.
func withImportedLogin(o *options, a *workload.RemoteAuth) {
	a.Login = ""
	if o.given("remote-auth-skip-browser") {
		a.SkipBrowser = o.server.login.SkipBrowser
	}
	if o.given("remote-auth-timeout") {
		a.Timeout = workload.Duration(o.server.timeout)
	}
}

// mayLogIn reports whether a server that requires a credential can get that of a login: no
// other one is configured, and --remote-auth=false is not given.
func (o *options) mayLogIn(s *workload.Spec) bool {
	r := s.Remote
	for name := range r.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return false
		}
	}
	for name := range r.SecretHeaders {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return false
		}
	}
	refused := o.given("remote-auth") && !o.server.remoteAuth
	return !refused && (r.Auth == nil || r.Auth.Login == "") && r.BearerToken == "" && r.BearerTokenFile == "" && s.TokenExchange == nil && s.ExternalAuth == nil && s.InjectedProvider() == ""
}

// login logs in at the remote server; also at one that requires no login, if force is set.
func (o *options) login(ctx context.Context, d *draft, signIns *oauthclient.Store, force bool) error {
	o.progress.Done()
	r := base.LoginRequest(o.app, d.spec)
	r.Force = force
	login, err := signIns.SignIn(ctx, r)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("log in to %s: %w", d.spec.Remote.URL, err)
	}
	base.PrintLogin(o.app, login)
	if d.spec.Remote.Auth == nil {
		d.spec.Remote.Auth = &workload.RemoteAuth{}
	}
	d.spec.Remote.Auth.Login = login.Key
	return nil
}

// challenges is an [http.RoundTripper] that notes whether a response 401 offered to accept a
// bearer token. A server may accept initialize without a token, and refuse the requests
// before and after it.
type challenges struct {
	next http.RoundTripper
	seen atomic.Bool
}

// RoundTrip implements [http.RoundTripper].
func (c *challenges) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusUnauthorized && oauthclient.OffersBearer(resp.Header) {
		c.seen.Store(true)
	}
	return resp, err
}

// detect determines the transport of the remote server, and whether it answered a request
// with a challenge for a bearer token.
func (o *options) detect(ctx context.Context, d *draft, signIns *oauthclient.Store) (challenged bool, err error) {
	s := d.spec
	rt, err := netguard.Transport(netguard.Options{AllowPrivate: true, AllowLoopback: true, AllowHTTP: true, CAFiles: s.CAFiles()})
	if err != nil {
		return false, err
	}
	observed := &challenges{next: rt}
	var login credential.Credential
	if a := s.Remote.Auth; a != nil && a.Login != "" {
		tokens, err := signIns.Keyed(a.Login, s.Remote.URL)
		if err != nil {
			return false, err
		}
		login = credential.NewLogin(tokens, "thv login "+s.Name, func() {}, slog.New(slog.DiscardHandler))
	}
	credentials, err := s.Credentials(o.secretOf(ctx, d), login, nil, nil)
	if err != nil {
		return false, err
	}
	found, err := backend.Detect(ctx, s.Remote.URL, credential.Transport(observed, credentials...))
	if err != nil {
		return observed.seen.Load(), err
	}
	s.Transport = workload.Transport(found)
	return observed.seen.Load(), nil
}
