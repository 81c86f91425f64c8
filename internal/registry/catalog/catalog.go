// Package catalog is the registry server's view of what is in its database: named
// registries, each an ordered list of sources.
package catalog

import (
	"context"
	"errors"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/serverjson"
	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// Errors that callers decide on, beside those of package store.
var (
	// ErrReadOnly: the registry has no managed source.
	ErrReadOnly = errors.New("the registry takes no publications: none of its sources is managed")
	// ErrCursor: the cursor is none that this registry has given out.
	ErrCursor = errors.New("the cursor is not one of this registry's")
)

// Definition is a registry as configured.
type Definition struct {
	Name string
	// Sources in order: the first that has a server is the one it is shown from.
	Sources []string
	// Managed is the one of Sources that takes publications, or "".
	Managed string
}

// Server is one version of a server as a registry shows it.
type Server struct {
	store.Version
	IsLatest bool
}

// Query selects what List returns. All conditions must hold.
type Query struct {
	// Cursor of the page before, or "".
	Cursor string
	Limit  int // of servers in the page, above 0
	// Words must all be found, each anywhere in name, title, description or tags.
	Words []string
	// Version is "latest", one version, or "" for all.
	Version        string
	UpdatedSince   time.Time
	IncludeDeleted bool
}

// Page is a part of a list, ordered by name and then by version, the oldest
// first.
type Page struct {
	Servers []Server
	// Next is the cursor of the page after; "" at the end.
	Next string
}

// Registry is what the HTTP API and the web page work on.
type Registry interface {
	Definition() Definition
	// Tag changes whenever any answer of the registry may have changed.
	Tag(ctx context.Context) (string, error)
	List(ctx context.Context, q Query) (Page, error)
	// Versions of a server, the newest first; store.ErrNotFound when there is none.
	Versions(ctx context.Context, name string, includeDeleted bool) ([]Server, error)
	// Get returns a version; "latest" is the newest. store.ErrNotFound.
	Get(ctx context.Context, name, version string, includeDeleted bool) (Server, error)

	// Publish adds a version: store.ErrExists, ErrReadOnly.
	Publish(ctx context.Context, doc serverjson.Document) (Server, error)
	// Edit replaces the document of a version.
	Edit(ctx context.Context, doc serverjson.Document) (Server, error)
	// SetStatus changes one version, or all of them when version is "".
	SetStatus(ctx context.Context, name, version, status, message string) ([]Server, error)
}
