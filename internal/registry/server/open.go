package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/toolhaven/toolhaven/internal/auth"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/registry/api"
	"github.com/toolhaven/toolhaven/internal/registry/catalog"
	"github.com/toolhaven/toolhaven/internal/registry/config"
	"github.com/toolhaven/toolhaven/internal/registry/store"
	"github.com/toolhaven/toolhaven/internal/registry/store/postgres"
	"github.com/toolhaven/toolhaven/internal/registry/store/sqlite"
	"github.com/toolhaven/toolhaven/internal/registry/web"
)

// openTimeout is how long a database that does not answer is waited for at start.
const openTimeout = 60 * time.Second

// OpenStore opens the configured database.
func OpenStore(ctx context.Context, c config.Database) (store.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if p := c.Postgres; p != nil {
		return postgres.Open(ctx, postgres.Options{URL: p.URL, PasswordFile: p.PasswordFile, MaxConnections: p.MaxConnections})
	}
	return sqlite.Open(ctx, c.SQLite.Path)
}

// openAccess makes the rules of access, with a validator that the caller closes;
// nil in anonymous mode.
func openAccess(cfg *config.Config, m *metrics, log *slog.Logger) (*api.Access, error) {
	if cfg.Auth.Mode == config.ModeAnonymous {
		return nil, nil
	}
	validator, err := auth.NewValidator(cfg.Providers(), auth.Options{Leeway: cfg.Leeway(), Observe: m.observeToken, ObserveKeys: m.observeKeys, Log: log})
	if err != nil {
		return nil, err
	}
	resource, err := cfg.Resource()
	if err != nil {
		validator.Close()
		return nil, err
	}
	return &api.Access{Validator: validator, Resource: resource, Public: cfg.Auth.OAuth.PublicPaths, Rules: rules(cfg.Authz)}, nil
}

// rules are the configured ones, or the default: any valid token reads, and the
// scope writes.
func rules(c *config.Authz) api.Rules {
	if c == nil {
		return api.Rules{{Actions: []api.Action{api.ActionRead}}, {Actions: []api.Action{api.ActionWrite}, Scopes: []string{config.ScopeWrite}}}
	}
	out := make(api.Rules, len(c.Rules))
	for i, r := range c.Rules {
		out[i] = api.Rule{Registries: r.Registries, Scopes: r.Scopes, Claims: r.Claims}
		for _, a := range r.Actions {
			out[i].Actions = append(out[i].Actions, api.Action(a))
		}
		if len(r.Actions) == 0 {
			out[i].Actions = []api.Action{api.ActionRead}
		}
	}
	return out
}

// webKey is the secret that seals the page's cookies, the same in all processes
// on one database.
func webKey(st store.Store) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		key, err := st.Secret(ctx, "web-cookies", func() ([]byte, error) {
			b := make([]byte, 32)
			_, err := rand.Read(b)
			return b, err
		})
		if err != nil {
			return nil, fmt.Errorf("the key of the page's cookies: %w", err)
		}
		if len(key) != 32 {
			return nil, errors.New("the key of the page's cookies is not 32 bytes")
		}
		return key, nil
	}
}

// openWeb makes the page; nil when it is disabled.
func openWeb(cfg *config.Config, access *api.Access, cat *catalog.Catalog, st store.Store, log *slog.Logger) (func(*http.ServeMux), error) {
	if cfg.Web.Disabled {
		return nil, nil
	}
	opt := web.Options{Registries: cat.Registries, Key: webKey(st), Log: log}
	if len(cfg.AllowedHosts) > 0 {
		opt.Host = cfg.AllowedHosts[0]
	}
	if access != nil {
		opt.BaseURL, opt.ResourceURL = cfg.Auth.OAuth.ResourceURL, cfg.Auth.OAuth.ResourceURL
		opt.Challenge = access.Resource.Challenge()
		opt.Validate = access.Validator.Validate
		opt.MayRead = func(id *auth.Identity, registry string) bool {
			_, ok := access.Rules.Allow(id, api.ActionRead, registry)
			return ok
		}
		opt.KeepClaims = access.Rules.Claims()
		if opt.Login = login(cfg, access.Validator); opt.Login == nil {
			opt.LoginMissing = true
		}
	}
	site, err := web.New(opt)
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	return site.Register, nil
}

// login is the page's way to sign visitors in; nil when none is configured.
func login(cfg *config.Config, v *auth.Validator) *web.Login {
	l := cfg.Web.Login
	if l == nil {
		return nil
	}
	out := &web.Login{Provider: l.Provider, ClientID: l.ClientID, Scopes: l.Scopes, Client: v.Client(l.Provider)}
	for _, p := range cfg.Auth.OAuth.Providers {
		if p.Name == l.Provider {
			out.Issuer = p.IssuerURL
		}
	}
	if l.ClientSecretFile != "" {
		out.ClientSecret = func() (string, error) { return netguard.ReadSecret(l.ClientSecretFile) }
	}
	return out
}
