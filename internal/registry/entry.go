// Package registry is the client's side of a catalog of servers: entries, their
// formats, and where they come from.
//
// A [Catalog] is a file, a file behind a URL, a server of the official registry
// API v0.1, or the small catalog built into the program. Whatever the place and
// the format, an entry is read into one type, [Entry]. It follows server.json
// (schema 2025-12-11), the official description of a server, and adds what the
// formats in use have beside it ([Hints]).
//
// How strictly is read: the two file formats are closed, so an unknown or a
// repeated key in their structure is an error with its line. What is inside a
// server.json grows by the official rules and is written by many programs, so
// unknown keys there are passed over, as is everything under _meta that is not
// understood. Nothing here is trusted: sizes and counts are bounded, and what an
// entry requests is checked where it is used (package source). An entry that cannot
// be used is left out of a list ([LeftOut]); it does not make the list fail.
package registry

import "encoding/json"

// The states of an entry.
const (
	Active     = "active"
	Deprecated = "deprecated"
	Deleted    = "deleted"
)

// Entry is one version of one server.
type Entry struct {
	Name          string `json:"name"` // unique; mostly namespace/name
	Title         string `json:"title,omitempty"`
	Description   string `json:"description,omitempty"`
	Version       string `json:"version,omitempty"`
	Status        string `json:"status"` // Active, Deprecated or Deleted
	StatusMessage string `json:"statusMessage,omitempty"`
	Repository    string `json:"repository,omitempty"` // URL of the sources
	WebsiteURL    string `json:"websiteUrl,omitempty"`

	Tier  string   `json:"tier,omitempty"`
	Tags  []string `json:"tags,omitempty"`
	Tools []string `json:"tools,omitempty"`

	// Packages run here, Remotes run elsewhere; an entry may have both.
	Packages []Package `json:"packages,omitempty"`
	Remotes  []Remote  `json:"remotes,omitempty"`
}

// Package is one way to run a server here.
type Package struct {
	// RegistryType is npm, pypi, oci, nuget, cargo, mcpb or, beyond the official
	// ones, go.
	RegistryType     string     `json:"registryType"`
	RegistryBaseURL  string     `json:"registryBaseUrl,omitempty"`
	Identifier       string     `json:"identifier"`
	Version          string     `json:"version,omitempty"`
	FileSHA256       string     `json:"fileSha256,omitempty"`
	RuntimeHint      string     `json:"runtimeHint,omitempty"`
	Transport        Transport  `json:"transport"`
	RuntimeArguments []Argument `json:"runtimeArguments,omitempty"`
	PackageArguments []Argument `json:"packageArguments,omitempty"`
	Environment      []KeyValue `json:"environmentVariables,omitempty"`

	Hints Hints `json:"hints,omitzero"`
}

// Transport is how a package's server speaks.
type Transport struct {
	Type string `json:"type"` // stdio, sse or streamable-http
	// URL is where it listens when it speaks HTTP, for example
	// http://localhost:8080/mcp. It may hold {variables}.
	URL string `json:"url,omitempty"`
}

// Remote is a server that runs elsewhere.
type Remote struct {
	Type      string           `json:"type"` // sse or streamable-http
	URL       string           `json:"url"`  // may hold {variables}
	Headers   []KeyValue       `json:"headers,omitempty"`
	Variables map[string]Input `json:"variables,omitempty"`

	Hints Hints `json:"hints,omitzero"`
}

// Input is a value that a server needs, and where it comes from.
type Input struct {
	Description string `json:"description,omitempty"`
	IsRequired  bool   `json:"isRequired,omitempty"`
	Format      string `json:"format,omitempty"` // string, number, boolean or filepath
	// Value is fixed by the entry; it may hold {variables}.
	Value       string   `json:"value,omitempty"`
	IsSecret    bool     `json:"isSecret,omitempty"`
	Default     string   `json:"default,omitempty"`
	Placeholder string   `json:"placeholder,omitempty"`
	Choices     []string `json:"choices,omitempty"`

	Variables map[string]Input `json:"variables,omitempty"`
}

// KeyValue is an environment variable or a header.
type KeyValue struct {
	Name string `json:"name"`
	Input
}

// Argument is one argument of a command line.
type Argument struct {
	Type      string `json:"type"`           // positional or named
	Name      string `json:"name,omitempty"` // of a named one, with its dashes
	ValueHint string `json:"valueHint,omitempty"`
	Repeated  bool   `json:"isRepeated,omitempty"`
	Input
}

// Hints are the members of a package or remote that formats in use have beyond
// server.json.
type Hints struct {
	Args []string `json:"args,omitempty"`
	// Permissions is a permission profile, not yet judged.
	Permissions json.RawMessage `json:"permissions,omitempty"`
	ProxyPort   int             `json:"proxyPort,omitempty"`
	// SystemPackages are packages of an image's distribution that the server needs
	// beside its own.
	SystemPackages []string `json:"systemPackages,omitempty"`
	Stateless      bool     `json:"stateless,omitempty"`
	// Provenance and OAuth are kept as they were written.
	Provenance json.RawMessage `json:"provenance,omitempty"`
	OAuth      json.RawMessage `json:"oauth,omitempty"`
	// Environment are variables that a remote server's entry lists.
	Environment []KeyValue `json:"environment,omitempty"`
}
