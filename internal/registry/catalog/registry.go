package catalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// registryView is a Registry over the index.
type registryView struct {
	Definition
	index *index
}

func (r *registryView) Name() string { return r.Definition.Name }

func (r *registryView) view(ctx context.Context) (*moment, error) {
	snapshots, horizon, err := r.index.current(ctx, r.Sources)
	if err != nil {
		return nil, fmt.Errorf("registry %s: %w", r.Name(), err)
	}
	return &moment{view: snapshots, horizon: horizon, store: r.index.store}, nil
}

// Now is the registry at this moment.
func (r *registryView) Now(ctx context.Context) (Reader, error) { return r.view(ctx) }

// Tag names the state of this moment.
func (r *registryView) Tag(ctx context.Context) (string, error) {
	m, err := r.view(ctx)
	if err != nil {
		return "", err
	}
	return m.Tag(ctx)
}

// List returns a page of the list of this moment.
func (r *registryView) List(ctx context.Context, q Query) (Page, error) {
	m, err := r.view(ctx)
	if err != nil {
		return Page{}, err
	}
	return m.List(ctx, q)
}

// Versions returns those of this moment.
func (r *registryView) Versions(ctx context.Context, name string, includeDeleted bool) ([]Server, error) {
	m, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	return m.Versions(ctx, name, includeDeleted)
}

// Get returns a version of this moment.
func (r *registryView) Get(ctx context.Context, name, version string, includeDeleted bool) (Server, error) {
	m, err := r.view(ctx)
	if err != nil {
		return Server{}, err
	}
	return m.Get(ctx, name, version, includeDeleted)
}

// moment is a registry at one moment.
type moment struct {
	view
	// horizon is the time up to which the view has every change. Of what is later
	// it may have one and lack another of before: see [Query.UpdatedSince].
	horizon time.Time
	store   store.Store
}

// Tag names the state that answers are made from.
func (m *moment) Tag(context.Context) (string, error) {
	h := sha256.New()
	for _, s := range m.view {
		fmt.Fprintf(h, "%q %q %d\n", s.Source, s.Epoch, s.Number)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12]), nil
}

// List returns a page.
func (m *moment) List(ctx context.Context, q Query) (Page, error) {
	q.until = m.horizon
	selected, next, err := m.list(q)
	if err != nil {
		return Page{}, err
	}
	servers, err := m.servers(ctx, selected)
	return Page{Servers: servers, Next: next}, err
}

// Versions of a server by the time of their publication, the newest first, as the
// official API lists them.
func (m *moment) Versions(ctx context.Context, name string, includeDeleted bool) ([]Server, error) {
	var found []*entry
	for _, e := range m.versions(name) {
		if includeDeleted || e.Status != registry.Deleted {
			found = append(found, e)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: %w", name, store.ErrNotFound)
	}
	slices.SortFunc(found, func(a, b *entry) int {
		return cmp.Or(b.PublishedAt.Compare(a.PublishedAt), compareAge(&b.Head, &a.Head))
	})
	return m.servers(ctx, found)
}

// Get returns one version; "latest" is the newest.
func (m *moment) Get(ctx context.Context, name, version string, includeDeleted bool) (Server, error) {
	for _, e := range m.versions(name) {
		if (e.Version == version || version == "latest" && e.latest) && (includeDeleted || e.Status != registry.Deleted) {
			servers, err := m.servers(ctx, []*entry{e})
			if err != nil {
				return Server{}, err
			}
			return servers[0], nil
		}
	}
	return Server{}, fmt.Errorf("%s %s: %w", name, version, store.ErrNotFound)
}

// servers fetches the documents of entries.
func (m *moment) servers(ctx context.Context, entries []*entry) ([]Server, error) {
	out := make([]Server, len(entries))
	if len(entries) == 0 {
		return out, nil
	}
	ids := make([]int64, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	documents, err := m.store.Documents(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read documents: %w", err)
	}
	for i, e := range entries {
		document, ok := documents[e.ID]
		if !ok {
			return nil, fmt.Errorf("%s %s has no document: %w", e.Name, e.Version, store.ErrUnavailable)
		}
		out[i] = Server{Version: store.Version{Head: e.Head, Document: document}, IsLatest: e.latest}
	}
	return out, nil
}
