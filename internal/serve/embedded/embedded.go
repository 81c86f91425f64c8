// Package embedded is the authorization server in the process of a workload: it is made from the
// workload's description, and gives credentials the upstream tokens of the callers.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver"
	"github.com/toolhaven/toolhaven/internal/authserver/storage"
	"github.com/toolhaven/toolhaven/internal/authserver/storage/memory"
	"github.com/toolhaven/toolhaven/internal/authserver/storage/redis"
	"github.com/toolhaven/toolhaven/internal/credential"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Server is the embedded authorization server of a workload. A nil Server is none.
type Server struct {
	*authserver.Server
	store storage.Store
}

// New makes the server of spec; nil without one. secrets returns the value of a reference; key
// is the workload's own. It sends no request. The error is of the configuration, such as a key
// that cannot be used.
func New(spec *workload.Spec, secrets func(ref string) (string, error), key []byte, log *slog.Logger) (*Server, error) {
	if spec.AuthServer == nil {
		return nil, nil
	}
	values := workload.AuthSecret(secrets)
	store := storage.Store(memory.New(memory.Options{}))
	if st := spec.AuthServer.Storage; st != nil && st.Redis != nil {
		r, err := redis.New(redis.Config{Redis: *st.Redis, Secret: values, Prefix: "thv:auth:" + spec.Name + ":"})
		if err != nil {
			return nil, fmt.Errorf("authorization server: %w", err)
		}
		store = r
		go func() { // its answer may take the connection's timeout
			for _, warning := range r.Warnings(context.Background()) {
				log.Warn(warning)
			}
		}()
	}
	server, err := authserver.New(authserver.Config{
		Spec: spec.AuthServer, Resource: spec.Auth.ResourceURL, RedirectBase: spec.RedirectBase(), Scopes: spec.Auth.Scopes, Secret: values, Key: key, Store: store, CAFiles: spec.CAFiles(), Log: log,
		Address: func(r *http.Request) string { return httpd.ClientAddress(r, spec.Proxy.TrustProxyHeaders) },
	})
	if err != nil {
		_ = store.Close() // nothing was stored
		return nil, fmt.Errorf("authorization server: %w", err)
	}
	return &Server{server, store}, nil
}

// Before serves the endpoints of the authorization server before the stage that requires its
// tokens.
func (a *Server) Before(authenticate func(http.Handler) http.Handler) func(http.Handler) http.Handler {
	if a == nil {
		return authenticate
	}
	return func(next http.Handler) http.Handler { return a.Wrap(authenticate(next)) }
}

// Close ends it.
func (a *Server) Close() {
	if a == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	a.Server.Close(ctx)
	_ = a.store.Close() // nothing is lost: every write was waited for
}

// UpstreamTokens returns tokens of upstream providers for credentials; nil without a server.
func (a *Server) UpstreamTokens() credential.Upstream {
	if a == nil {
		return nil
	}
	return callerTokens{a.Server}
}

// callerTokens are the upstream tokens of the callers' sessions.
type callerTokens struct{ server *authserver.Server }

// Token implements [credential.Upstream].
func (t callerTokens) Token(ctx context.Context, provider string) (access, id string, err error) {
	access, id, err = t.server.UpstreamToken(ctx, sessionOf(ctx), provider)
	return access, id, loginError(err)
}

// Renew implements [credential.Upstream].
func (t callerTokens) Renew(ctx context.Context, provider, rejected string) (access string, err error) {
	access, err = t.server.RenewUpstreamToken(ctx, sessionOf(ctx), provider, rejected)
	return access, loginError(err)
}

// sessionOf is the session of the caller's access token, which the gateway verified.
func sessionOf(ctx context.Context) authserver.Session {
	caller := exchange.CallerOf(ctx)
	if caller == nil {
		return authserver.Session{}
	}
	var s authserver.Session
	s.ID, _ = caller.Claims["sid"].(string)
	s.Client, _ = caller.Claims["client_id"].(string)
	s.Subject = caller.Subject
	return s
}

func loginError(err error) error {
	if errors.Is(err, authserver.ErrLogin) {
		return credential.ErrLogin
	}
	return err
}
