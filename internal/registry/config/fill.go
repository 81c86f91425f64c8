package config

import (
	"path/filepath"
	"strings"
	"time"
)

// Values of settings, and defaults.
const (
	ModeOAuth     = "oauth"
	ModeAnonymous = "anonymous"

	AuditReject = "reject"
	AuditAccept = "accept"

	DefaultRegistry = "default"
	DefaultRealm    = "mcp-registry"
	// DefaultDocumentation is the resource_documentation of the metadata.
	DefaultDocumentation = "https://github.com/toolhaven/toolhaven/blob/main/docs/registry.md"

	defaultDatabase       = "registry.db"
	defaultGitPath        = "registry.json"
	defaultInterval       = 10 * time.Minute
	defaultMaxConnections = 10
)

// fill puts in what the file may leave out.
func (c *Config) fill(dir, stateDir string) {
	if c.Auth.Mode == "" {
		c.Auth.Mode = ModeOAuth
	}
	if o := c.Auth.OAuth; o != nil {
		orDefault(&o.Realm, DefaultRealm)
		orDefault(&o.Documentation, DefaultDocumentation)
		for i := range o.Providers {
			p := &o.Providers[i]
			absolute(dir, &p.ClientSecretFile, &p.CACertPath, &p.AuthTokenFile)
		}
	}
	if c.Database.Postgres == nil && c.Database.SQLite == nil {
		c.Database.SQLite = &SQLite{}
	}
	if s := c.Database.SQLite; s != nil {
		absolute(dir, &s.Path)
		orDefault(&s.Path, filepath.Join(stateDir, defaultDatabase))
	}
	if p := c.Database.Postgres; p != nil {
		absolute(dir, &p.PasswordFile)
		if p.MaxConnections == 0 {
			p.MaxConnections = defaultMaxConnections
		}
	}
	if len(c.Sources) == 0 && len(c.Registries) == 0 {
		c.Sources = []Source{{Name: DefaultRegistry, Managed: &Managed{}}}
	}
	if len(c.Registries) == 0 {
		r := Registry{Name: DefaultRegistry}
		for _, s := range c.Sources {
			r.Sources = append(r.Sources, s.Name)
		}
		c.Registries = []Registry{r}
	}
	for i := range c.Sources {
		c.Sources[i].fill(dir)
	}
	if c.Web.Login != nil {
		absolute(dir, &c.Web.Login.ClientSecretFile)
	}
	absolute(dir, &c.Audit.File)
	orDefault(&c.Audit.OnFailure, AuditReject)
}

func (s *Source) fill(dir string) {
	if s.Interval == 0 && s.Managed == nil {
		s.Interval = Duration(defaultInterval)
	}
	switch {
	case s.File != nil:
		absolute(dir, &s.File.Path)
	case s.Git != nil:
		orDefault(&s.Git.Path, defaultGitPath)
		absolute(dir, &s.Git.PasswordFile, &s.Git.CACertPath)
	case s.API != nil:
		s.API.Endpoint = strings.TrimRight(s.API.Endpoint, "/")
		absolute(dir, &s.API.TokenFile, &s.API.CACertPath)
	}
}

func orDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// absolute makes paths relative to the file's directory absolute.
func absolute(dir string, paths ...*string) {
	for _, p := range paths {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
}
