package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/toolhaven/toolhaven/internal/auth"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/registry/api"
	"github.com/toolhaven/toolhaven/internal/registry/catalog"
	"github.com/toolhaven/toolhaven/internal/registry/config"
	"github.com/toolhaven/toolhaven/internal/registry/store"
	"github.com/toolhaven/toolhaven/internal/registry/store/postgres"
	"github.com/toolhaven/toolhaven/internal/registry/store/sqlite"
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

// Validator makes the validator of bearer tokens for a configuration.
func Validator(cfg *config.Config, observe func(provider, outcome string), log *slog.Logger) (*auth.Validator, error) {
	return auth.NewValidator(cfg.Providers(), auth.Options{Client: ProviderClient, Leeway: cfg.Leeway(), Observe: observe, Log: log})
}

// ProviderClient makes the HTTP client for an identity provider: no redirects,
// and private addresses only where the provider is allowed them. A provider that
// is configured on this machine may be reached there.
func ProviderClient(p auth.Provider) (*http.Client, error) {
	opt := netguard.Options{AllowPrivate: p.AllowPrivateIP, AllowLoopback: p.AllowPrivateIP || onThisMachine(p.IssuerURL, p.JWKSURL, p.IntrospectionURL)}
	if p.CACertPath != "" {
		opt.CAFiles = []string{p.CACertPath}
	}
	return netguard.Client(opt)
}

func onThisMachine(urls ...string) bool {
	return slices.ContainsFunc(urls, func(raw string) bool {
		u, err := url.Parse(raw)
		if err != nil {
			return false
		}
		ip := net.ParseIP(u.Hostname())
		return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	})
}

// openAccess makes who may do what; nil in anonymous mode.
func openAccess(cfg *config.Config, m *metrics, log *slog.Logger) (*api.Access, func(), error) {
	if cfg.Auth.Mode == config.ModeAnonymous {
		return nil, func() {}, nil
	}
	validator, err := Validator(cfg, m.observeToken, log)
	if err != nil {
		return nil, nil, err
	}
	resource, err := cfg.Resource()
	if err != nil {
		return nil, nil, err
	}
	return &api.Access{Validator: validator, Resource: resource, Public: cfg.Auth.OAuth.PublicPaths, Rules: rules(cfg.Authz)}, func() {}, nil
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

func openWeb(cfg *config.Config, access *api.Access, cat *catalog.Catalog, st store.Store, log *slog.Logger) (func(*http.ServeMux), error) {
	_ = webKey(st)
	return nil, nil
}
