// Package catalog is the registry server's view of what is in its database: named
// registries, each an ordered list of sources.
//
// It keeps the heads of all versions in memory, ordered, and reads the revisions of
// the sources before each response (one short query); documents stay in the
// database and are fetched for a response alone. Order, search, filters and the
// rule of which source shows a server are here, once, and are the same on every
// database. What one process writes is in the next response of every other.
package catalog

import (
	"context"
	"errors"
	"slices"
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
	// ErrShadowed: what would be written is hidden by an earlier source.
	ErrShadowed = errors.New("another source shows this server")
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
	// With words, the list is ordered by registry.Score.
	Words []string
	// Version is "latest", one version, or "" for all.
	Version string
	// UpdatedSince, if not zero, selects later changes. A client that passes the
	// latest UpdatedAt of its previous list misses nothing: changes beyond the
	// horizon, and those made while the pages are read, are in the next list.
	UpdatedSince   time.Time
	IncludeDeleted bool

	until time.Time // the horizon of the moment
}

// Page is a part of a list, ordered by name and then by version, as text, or by
// how well it matches the words of a search.
type Page struct {
	Servers []Server
	// Next is the cursor of the page after; "" at the end.
	Next string
}

// Reader answers questions about a registry.
type Reader interface {
	// Tag changes whenever any answer of the registry may have changed.
	Tag(ctx context.Context) (string, error)
	List(ctx context.Context, q Query) (Page, error)
	// Versions of a server, the one published last first; store.ErrNotFound when
	// there is none.
	Versions(ctx context.Context, name string, includeDeleted bool) ([]Server, error)
	// Get returns a version; "latest" is the newest. store.ErrNotFound.
	Get(ctx context.Context, name, version string, includeDeleted bool) (Server, error)
}

// Registry is what the HTTP API and the web page work on. As a Reader it answers
// each question from the state of the moment.
type Registry interface {
	Reader
	Name() string
	// Now returns a Reader of the state of this moment, which reads
	// documents only from the database.
	Now(ctx context.Context) (Reader, error)

	// Publish adds a version: store.ErrExists, ErrReadOnly.
	Publish(ctx context.Context, doc serverjson.Document) (Server, error)
	// Edit replaces the document of a version.
	Edit(ctx context.Context, doc serverjson.Document) (Server, error)
	// SetStatus changes one version, or all of them when version is "".
	SetStatus(ctx context.Context, name, version, status, message string) ([]Server, error)
}

// Catalog holds the registries of a server.
type Catalog struct {
	registries []Registry
	index      *index
	sources    []string
}

// New makes a Catalog over a store.
func New(st store.Store, definitions []Definition) *Catalog {
	c := &Catalog{index: newIndex(st)}
	for _, d := range definitions {
		c.registries = append(c.registries, &registryView{Definition: d, index: c.index})
		for _, s := range d.Sources {
			if !slices.Contains(c.sources, s) {
				c.sources = append(c.sources, s)
			}
		}
	}
	return c
}

// Registries are all of them, in their configured order.
func (c *Catalog) Registries() []Registry { return c.registries }

// Registry finds one by name.
func (c *Catalog) Registry(name string) (Registry, bool) {
	for _, r := range c.registries {
		if r.Name() == name {
			return r, true
		}
	}
	return nil, false
}

// Warm reads all sources, so that the first request need not.
func (c *Catalog) Warm(ctx context.Context) error {
	_, _, err := c.index.current(ctx, c.sources)
	return err
}
