// Package config is the configuration file of the registry server: its fields,
// how strictly it is read, and everything that can be wrong with it. One
// validation serves `validate`, `serve` and `check-token`.
package config

import "time"

// Config is the whole file. Its zero value, with an auth section, is complete:
// one managed registry named default, in an SQLite file of the state directory.
type Config struct {
	Auth Auth `json:"auth"`
	// AllowedHosts are names, with or without a port, under which clients reach
	// the server besides loopback names, the listen address and resourceUrl.
	AllowedHosts []string `json:"allowedHosts"`

	Authz      *Authz     `json:"authz"`
	Database   Database   `json:"database"`
	Sources    []Source   `json:"sources"`
	Registries []Registry `json:"registries"`
	Web        Web        `json:"web"`
	Audit      Audit      `json:"audit"`
}

// Auth is how callers are authenticated (specification section 2.1).
type Auth struct {
	Mode  string `json:"mode"` // oauth (default) or anonymous
	OAuth *OAuth `json:"oauth"`
}

// OAuth is the configuration of the protected resource.
type OAuth struct {
	ResourceURL string `json:"resourceUrl"`
	Realm       string `json:"realm"`
	// Documentation is the metadata's resource_documentation; it has a default.
	Documentation string     `json:"resourceDocumentation"`
	PublicPaths   []string   `json:"publicPaths"`
	Providers     []Provider `json:"providers"`
	// Leeway is granted to clocks that differ; nil is 30 s.
	Leeway *Duration `json:"leeway"`
}

// Provider is an identity provider; package auth documents its fields.
type Provider struct {
	Name             string `json:"name"`
	IssuerURL        string `json:"issuerUrl"`
	Audience         string `json:"audience"`
	JWKSURL          string `json:"jwksUrl"`
	IntrospectionURL string `json:"introspectionUrl"`
	ClientID         string `json:"clientId"`
	ClientSecretFile string `json:"clientSecretFile"`
	CACertPath       string `json:"caCertPath"`
	AuthTokenFile    string `json:"authTokenFile"`
	AllowPrivateIP   bool   `json:"allowPrivateIP"`
}

// Authz holds the rules of access. Without it a valid token may read, and writing
// needs the scope mcp-registry:write. With it, what no rule allows is refused.
type Authz struct {
	Rules []Rule `json:"rules"`
}

// Rule allows actions on registries to callers that have all the scopes and, for
// each claim, one of the values.
type Rule struct {
	Actions    []string            `json:"actions"`    // read, write; empty is read
	Registries []string            `json:"registries"` // empty is all
	Scopes     []string            `json:"scopes"`
	Claims     map[string][]string `json:"claims"`
}

// Database is where everything is kept: at most one of the two.
type Database struct {
	SQLite   *SQLite   `json:"sqlite"`
	Postgres *Postgres `json:"postgres"`
}

// SQLite is a file, made when it is not there.
type SQLite struct {
	Path string `json:"path"`
}

// Postgres is a PostgreSQL database by URL (or key=value words). The password
// comes from PasswordFile, which is read for each new connection, from PGPASSFILE
// or from the URL.
type Postgres struct {
	URL            string `json:"url"`
	PasswordFile   string `json:"passwordFile"`
	MaxConnections int    `json:"maxConnections"` // 0 is 10
}

// Source is where servers come from: exactly one of the four kinds.
type Source struct {
	Name    string   `json:"name"`
	File    *File    `json:"file"`
	Git     *Git     `json:"git"`
	API     *API     `json:"api"`
	Managed *Managed `json:"managed"`
	// Interval between synchronizations; 0 is the kind's own (git 10m, api 10m,
	// file at each change and every 10m).
	Interval Duration `json:"interval"`
	Filter   Filter   `json:"filter"`
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
	Path string `json:"path"`
}

// Git is a registry file in a repository.
type Git struct {
	Repository   string `json:"repository"`   // https://, ssh:// or file:// URL
	Branch       string `json:"branch"`       // at most one of branch, tag, commit
	Tag          string `json:"tag"`          //
	Commit       string `json:"commit"`       //
	Path         string `json:"path"`         // of the file; registry.json unless set
	Username     string `json:"username"`     // with passwordFile
	PasswordFile string `json:"passwordFile"` // read for each synchronization
	CACertPath   string `json:"caCertPath"`
	// AllowPrivateIP permits connections to private addresses.
	AllowPrivateIP bool `json:"allowPrivateIP"`
}

// API is another registry server: the official one, or one of ours.
type API struct {
	// Endpoint is the base that /v0.1/servers is appended to.
	Endpoint string `json:"endpoint"`
	// TokenFile holds a bearer token for it, read for each synchronization.
	TokenFile      string `json:"tokenFile"`
	CACertPath     string `json:"caCertPath"`
	AllowPrivateIP bool   `json:"allowPrivateIP"`
}

// Managed is the registry's own database.
type Managed struct{}

// Filter selects the servers of a source; exclude wins, an empty include is all.
type Filter struct {
	Names Match `json:"names"` // patterns in which * stands for any text, / too
	Tags  Match `json:"tags"`  // exact
}

// Match is what to include and exclude.
type Match struct {
	Include []string `json:"include"`
	Exclude []string `json:"exclude"`
}

// Registry is a named view over sources.
type Registry struct {
	Name string `json:"name"`
	// Sources in order: the first that has a server is the one it is shown from.
	Sources []string `json:"sources"`
}

// Web is the page for people.
type Web struct {
	// Disabled serves no page.
	Disabled bool `json:"disabled"`
	// Login is how a browser signs in, in oauth mode; without it the page
	// shows that signing in is not set up.
	Login *WebLogin `json:"login"`
}

// WebLogin is the registry as a client of one of its providers (authorization
// code with PKCE). The redirect URI is resourceUrl's origin and path, with
// /login/callback appended.
type WebLogin struct {
	Provider         string   `json:"provider"` // the name of one of auth.oauth.providers
	ClientID         string   `json:"clientId"`
	ClientSecretFile string   `json:"clientSecretFile"`
	Scopes           []string `json:"scopes"`
}

// Audit is a record of writes and refusals, one JSON object a line.
type Audit struct {
	// File is appended to; "" is the standard output.
	File string `json:"file"`
	// OnFailure is what becomes of a write whose record cannot be stored: reject
	// (default) or accept.
	OnFailure string `json:"onFailure"`
}

// Duration is a time.Duration written as 30s, 10m, 2h.
type Duration time.Duration
