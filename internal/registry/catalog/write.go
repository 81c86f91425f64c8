package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/serverjson"
	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// Publish adds a version to the managed source.
func (r *registryView) Publish(ctx context.Context, doc serverjson.Document) (Server, error) {
	if err := r.writable(ctx, doc.Name); err != nil {
		return Server{}, err
	}
	stored, err := r.index.store.Insert(ctx, Publication(r.Managed, doc))
	if err != nil {
		return Server{}, fmt.Errorf("publish %s %s: %w", doc.Name, doc.Version, err)
	}
	return r.shown(ctx, stored)
}

// Publication is a document as a source keeps it once it is published. Its times
// are those of the change that brings it.
func Publication(source string, doc serverjson.Document) store.Version {
	return store.Version{
		Head:     store.Head{Source: source, Name: doc.Name, Version: doc.Version, Status: registry.Active, Search: doc.SearchText()},
		Document: doc.Raw,
	}
}

// Edit replaces the document of a version; its status stays.
func (r *registryView) Edit(ctx context.Context, doc serverjson.Document) (Server, error) {
	if err := r.writable(ctx, doc.Name); err != nil {
		return Server{}, err
	}
	stored, err := r.index.store.Update(ctx, r.Managed, doc.Name, doc.Version, func(v *store.Version) error {
		if string(v.Document) != string(doc.Raw) {
			v.Document, v.Search = doc.Raw, doc.SearchText()
		}
		return nil
	})
	if err != nil {
		return Server{}, fmt.Errorf("edit %s %s: %w", doc.Name, doc.Version, err)
	}
	return r.shown(ctx, stored)
}

// SetStatus changes the status of one version, or of all when version is "".
func (r *registryView) SetStatus(ctx context.Context, name, version, status, message string) ([]Server, error) {
	if err := r.writable(ctx, name); err != nil {
		return nil, err
	}
	change := func(v *store.Version) error {
		if v.Status != status {
			v.StatusChangedAt = time.Time{} // now, as the store has it
		}
		v.Status, v.StatusMessage = status, message
		return nil
	}
	var stored []store.Version
	var err error
	if version == "" {
		stored, err = r.index.store.UpdateAll(ctx, r.Managed, name, change)
	} else {
		var one store.Version
		one, err = r.index.store.Update(ctx, r.Managed, name, version, change)
		stored = []store.Version{one}
	}
	if err != nil {
		return nil, fmt.Errorf("set the status of %s %s: %w", name, version, err)
	}
	out := make([]Server, len(stored))
	for i, v := range stored {
		if out[i], err = r.shown(ctx, v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// writable reports whether publications of a server go into this registry, and
// would be seen there.
func (r *registryView) writable(ctx context.Context, name string) error {
	if r.Managed == "" {
		return ErrReadOnly
	}
	v, err := r.view(ctx)
	if err != nil {
		return err
	}
	if shown := v.versions(name); len(shown) > 0 && shown[0].Source != r.Managed && isBefore(r.Sources, shown[0].Source, r.Managed) {
		return fmt.Errorf("%w: %s comes from source %s, which is before %s", ErrShadowed, name, shown[0].Source, r.Managed)
	}
	return nil
}

func isBefore(sources []string, a, b string) bool {
	for _, s := range sources {
		if s == a {
			return true
		}
		if s == b {
			return false
		}
	}
	return false
}

// shown is a version just written, as the registry shows it now.
func (r *registryView) shown(ctx context.Context, stored store.Version) (Server, error) {
	v, err := r.view(ctx)
	if err != nil {
		return Server{}, err
	}
	for _, e := range v.versions(stored.Name) {
		if e.ID == stored.ID {
			return Server{Version: stored, IsLatest: e.latest}, nil
		}
	}
	return Server{Version: stored}, nil
}
