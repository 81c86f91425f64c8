// Package config is the configuration file of the registry server: its fields,
// how strictly it is read, and everything that can be wrong with it. One
// validation serves `validate`, `serve` and `check-token`.
package config

import "time"

// Config is the whole file. Its zero value, with an auth section, is complete:
// one managed registry named default, in an SQLite file of the state directory.
type Config struct {
	Auth Auth `yaml:"auth"`
	// AllowedHosts are names, with or without a port, under which clients reach
	// the server besides loopback names, the listen address and resourceUrl.
	AllowedHosts []string `yaml:"allowedHosts"`

	Authz      *Authz     `yaml:"authz"`
	Database   Database   `yaml:"database"`
	Sources    []Source   `yaml:"sources"`
	Registries []Registry `yaml:"registries"`
	Web        Web        `yaml:"web"`
	Audit      Audit      `yaml:"audit"`
}

// Auth is how callers are authenticated (specification section 2.1).
type Auth struct {
	Mode  string `yaml:"mode"` // oauth (default) or anonymous
	OAuth *OAuth `yaml:"oauth"`
}

// OAuth is the configuration of the protected resource.
type OAuth struct {
	ResourceURL string `yaml:"resourceUrl"`
	Realm       string `yaml:"realm"`
	// Documentation is the metadata's resource_documentation; it has a default.
	Documentation string     `yaml:"resourceDocumentation"`
	PublicPaths   []string   `yaml:"publicPaths"`
	Providers     []Provider `yaml:"providers"`
	// Leeway is granted to clocks that differ; nil is 30 s.
	Leeway *Duration `yaml:"leeway"`
}

// Provider is an identity provider; package auth documents its fields.
type Provider struct {
	Name             string `yaml:"name"`
	IssuerURL        string `yaml:"issuerUrl"`
	Audience         string `yaml:"audience"`
	JWKSURL          string `yaml:"jwksUrl"`
	IntrospectionURL string `yaml:"introspectionUrl"`
	ClientID         string `yaml:"clientId"`
	ClientSecretFile string `yaml:"clientSecretFile"`
	CACertPath       string `yaml:"caCertPath"`
	AuthTokenFile    string `yaml:"authTokenFile"`
	AllowPrivateIP   bool   `yaml:"allowPrivateIP"`
}

// Authz holds the rules of access. Without it a valid token may read, and writing
// needs the scope mcp-registry:write. With it, what no rule allows is refused.
type Authz struct {
	Rules []Rule `yaml:"rules"`
}

// Rule allows actions on registries to callers that have all the scopes and, for
// each claim, one of the values.
type Rule struct {
	Actions    []string            `yaml:"actions"`    // read, write; empty is read
	Registries []string            `yaml:"registries"` // empty is all
	Scopes     []string            `yaml:"scopes"`
	Claims     map[string][]string `yaml:"claims"`
}

// Database is where everything is kept: at most one of the two.
type Database struct {
	SQLite   *SQLite   `yaml:"sqlite"`
	Postgres *Postgres `yaml:"postgres"`
}

// SQLite is a file, made when it is not there.
type SQLite struct {
	Path string `yaml:"path"`
}

// Postgres is a PostgreSQL database by URL (or key=value words). The password
// comes from PasswordFile, which is read for each new connection, from PGPASSFILE
// or from the URL.
type Postgres struct {
	URL            string `yaml:"url"`
	PasswordFile   string `yaml:"passwordFile"`
	MaxConnections int    `yaml:"maxConnections"` // 0 is 10
}

// Source is where servers come from: exactly one of the four kinds.
type Source struct {
	Name    string   `yaml:"name"`
	File    *File    `yaml:"file"`
	Git     *Git     `yaml:"git"`
	API     *API     `yaml:"api"`
	Managed *Managed `yaml:"managed"`
	// Interval between synchronizations; 0 is the kind's own (git 10m, api 10m,
	// file at each change and every 10m).
	Interval Duration `yaml:"interval"`
	Filter   Filter   `yaml:"filter"`
}

// Kind is file, git, api or managed.
func (s Source) Kind() string {
	switch {
	case s.File != nil:
		return "file"
	case s.Git != nil:
		return "git"
	case s.API != nil:
		return "api"
	}
	return "managed"
}

// File is a registry file of this machine, in either format; it is watched.
type File struct {
	Path string `yaml:"path"`
}

// Git is a registry file in a repository.
type Git struct {
	Repository   string `yaml:"repository"`   // https://, ssh:// or file:// URL
	Branch       string `yaml:"branch"`       // at most one of branch, tag, commit
	Tag          string `yaml:"tag"`          //
	Commit       string `yaml:"commit"`       //
	Path         string `yaml:"path"`         // of the file; registry.json unless set
	Username     string `yaml:"username"`     // with passwordFile
	PasswordFile string `yaml:"passwordFile"` // read for each synchronization
	CACertPath   string `yaml:"caCertPath"`
	// AllowPrivateIP permits connections to private addresses.
	AllowPrivateIP bool `yaml:"allowPrivateIP"`
}

// API is another registry server: the official one, or one of ours.
type API struct {
	// Endpoint is the base that /v0.1/servers is appended to.
	Endpoint string `yaml:"endpoint"`
	// TokenFile holds a bearer token for it, read for each synchronization.
	TokenFile      string `yaml:"tokenFile"`
	CACertPath     string `yaml:"caCertPath"`
	AllowPrivateIP bool   `yaml:"allowPrivateIP"`
}

// Managed is the registry's own database.
type Managed struct{}

// Filter selects the servers of a source; exclude wins, an empty include is all.
type Filter struct {
	Names Match `yaml:"names"` // patterns in which * stands for any text, / too
	Tags  Match `yaml:"tags"`  // exact
}

// Match is what to include and exclude.
type Match struct {
	Include []string `yaml:"include"`
	Exclude []string `yaml:"exclude"`
}

// Registry is a named view over sources.
type Registry struct {
	Name string `yaml:"name"`
	// Sources in order: the first that has a server is the one it is shown from.
	Sources []string `yaml:"sources"`
}

// Web is the page for people.
type Web struct {
	// Disabled serves no page.
	Disabled bool `yaml:"disabled"`
	// Login is how a browser signs in, in oauth mode; without it the page
	// shows that signing in is not set up.
	Login *WebLogin `yaml:"login"`
}

// WebLogin is the registry as a client of one of its providers (authorization
// code with PKCE). The redirect URI is resourceUrl's origin and path, with
// /login/callback appended.
type WebLogin struct {
	Provider         string   `yaml:"provider"` // the name of one of auth.oauth.providers
	ClientID         string   `yaml:"clientId"`
	ClientSecretFile string   `yaml:"clientSecretFile"`
	Scopes           []string `yaml:"scopes"`
}

// Audit is a record of writes and refusals, one JSON object a line.
type Audit struct {
	// File is appended to; "" is the standard output.
	File string `yaml:"file"`
	// OnFailure is what becomes of a write whose record cannot be stored: reject
	// (default) or accept.
	OnFailure string `yaml:"onFailure"`
}

// Duration is a time.Duration written as 30s, 10m, 2h.
type Duration time.Duration
