package config

import (
	"time"

	"github.com/toolhaven/toolhaven/internal/auth"
	"github.com/toolhaven/toolhaven/internal/registry/catalog"
)

// What a caller may do.
const (
	ActionRead  = "read"
	ActionWrite = "write"
)

// Scopes that the registry advertises, and requires without an authz section.
const (
	ScopeRead  = "mcp-registry:read"
	ScopeWrite = "mcp-registry:write"
)

// Auth is the provider in the validator's terms.
func (p Provider) Auth() auth.Provider {
	return auth.Provider{
		Name: p.Name, IssuerURL: p.IssuerURL, Audience: p.Audience, JWKSURL: p.JWKSURL,
		IntrospectionURL: p.IntrospectionURL, ClientID: p.ClientID, ClientSecretFile: p.ClientSecretFile,
		CACertPath: p.CACertPath, AuthTokenFile: p.AuthTokenFile, AllowPrivateIP: p.AllowPrivateIP,
	}
}

// Providers are all of them, in order.
func (c *Config) Providers() []auth.Provider {
	if c.Auth.OAuth == nil {
		return nil
	}
	var out []auth.Provider
	for _, p := range c.Auth.OAuth.Providers {
		out = append(out, p.Auth())
	}
	return out
}

// Leeway is what clocks may differ, as auth.Options takes it: negative is none.
func (c *Config) Leeway() time.Duration {
	if c.Auth.OAuth == nil || c.Auth.OAuth.Leeway == nil {
		return auth.DefaultLeeway
	}
	if d := time.Duration(*c.Auth.OAuth.Leeway); d > 0 {
		return d
	}
	return -1
}

// Resource is the server as a protected resource (oauth mode).
func (c *Config) Resource() (*auth.Resource, error) {
	o := c.Auth.OAuth
	issuers := make([]string, len(o.Providers))
	for i, p := range o.Providers {
		issuers[i] = p.IssuerURL
	}
	return auth.NewResource(auth.ResourceConfig{
		URL: o.ResourceURL, Realm: o.Realm, AuthorizationServers: issuers, Documentation: o.Documentation, Scopes: c.scopes(),
	})
}

// scopes are those that the configuration can require.
func (c *Config) scopes() []string {
	if c.Authz == nil {
		return []string{ScopeRead, ScopeWrite}
	}
	var out []string
	seen := map[string]bool{}
	for _, r := range c.Authz.Rules {
		for _, s := range r.Scopes {
			if !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
	}
	return out
}

// Definitions are the registries in the catalog's terms.
func (c *Config) Definitions() []catalog.Definition {
	managed := map[string]bool{}
	for _, s := range c.Sources {
		managed[s.Name] = s.Managed != nil
	}
	out := make([]catalog.Definition, len(c.Registries))
	for i, r := range c.Registries {
		out[i] = catalog.Definition{Name: r.Name, Sources: r.Sources}
		for _, s := range r.Sources {
			if managed[s] {
				out[i].Managed = s
			}
		}
	}
	return out
}
