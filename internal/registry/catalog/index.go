package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// index holds the heads of every version in memory, ordered, and updates them from
// the store before each use. A page, a search and the rule on sources cost the
// same on every database.
type index struct {
	store  store.Store
	flight singleflight.Group

	mu      sync.RWMutex
	sources map[string]*snapshot
}

// snapshot is one source at one revision. It never changes.
type snapshot struct {
	store.Revision
	entries []*entry // by name, then by version
}

// entry is a version in a snapshot.
type entry struct {
	store.Head
	latest bool
}

func newIndex(st store.Store) *index {
	return &index{store: st, sources: map[string]*snapshot{}}
}

// refreshTimeout bounds a query for changes.
const refreshTimeout = 30 * time.Second

// current returns the sources' snapshots, in order, none older than the call, and
// the time up to which they have every change. They may have later ones too: a
// snapshot is of the moment when it was read.
func (x *index) current(ctx context.Context, sources []string) (out []*snapshot, horizon time.Time, err error) {
	bounded, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	wanted, err := x.store.Revisions(bounded, sources)
	if err != nil {
		return nil, horizon, err
	}
	out = make([]*snapshot, len(sources))
	for i, want := range wanted {
		if want.At.After(horizon) {
			horizon = want.At
		}
		// A refresh in flight may have begun before the query above: then one more.
		for range 3 {
			x.mu.RLock()
			have := x.sources[want.Source]
			x.mu.RUnlock()
			if have != nil && have.Epoch == want.Epoch && have.Number >= want.Number {
				out[i] = have
				break
			}
			if err := x.refresh(ctx, want.Source); err != nil {
				return nil, horizon, err
			}
		}
		if out[i] == nil {
			return nil, horizon, fmt.Errorf("source %s: %w: it changes faster than it can be read", want.Source, store.ErrUnavailable)
		}
	}
	return out, horizon, nil
}

// refresh reads the changes of a source, once for all concurrent callers.
func (x *index) refresh(ctx context.Context, source string) error {
	done := x.flight.DoChan(source, func() (any, error) {
		// Other callers wait for it too, so it does not end with this one.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
		defer cancel()
		return nil, x.load(ctx, source)
	})
	select {
	case r := <-done:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (x *index) load(ctx context.Context, source string) error {
	x.mu.RLock()
	have := x.sources[source]
	x.mu.RUnlock()
	next, err := x.read(ctx, source, have)
	if err == nil && have != nil && next.Epoch != have.Epoch {
		// It is another database: start from nothing.
		next, err = x.read(ctx, source, nil)
	}
	if err != nil {
		return fmt.Errorf("read the changes of source %s: %w", source, err)
	}
	x.mu.Lock()
	x.sources[source] = next
	x.mu.Unlock()
	return nil
}

func (x *index) read(ctx context.Context, source string, have *snapshot) (*snapshot, error) {
	if have == nil {
		have = &snapshot{}
	}
	var changed []*entry
	revision, err := x.store.Changes(ctx, source, have.Number, func(h store.Head) error {
		changed = append(changed, &entry{Head: h})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &snapshot{Revision: revision, entries: merge(have.entries, changed)}, nil
}

func order(a, b *entry) int {
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return strings.Compare(a.Version, b.Version)
}

// merge returns old with changed inserted, in order, and the latest flags updated.
// old is not altered; the entries of changed become part of the result.
func merge(old, changed []*entry) []*entry {
	if len(changed) == 0 {
		return old
	}
	slices.SortFunc(changed, order)
	out := make([]*entry, 0, len(old)+len(changed))
	for len(old) > 0 || len(changed) > 0 {
		name := firstName(old, changed)
		was, now := group(old, name), group(changed, name)
		old, changed = old[len(was):], changed[len(now):]
		if len(now) == 0 {
			out = append(out, was...)
			continue
		}
		out = append(out, mergeVersions(was, now)...)
	}
	return out
}

func firstName(a, b []*entry) string {
	if len(a) == 0 || len(b) > 0 && b[0].Name < a[0].Name {
		return b[0].Name
	}
	return a[0].Name
}

// group is the part at the start of entries that has the name.
func group(entries []*entry, name string) []*entry {
	n := 0
	for n < len(entries) && entries[n].Name == name {
		n++
	}
	return entries[:n]
}

// mergeVersions merges the versions of one server.
func mergeVersions(was, now []*entry) []*entry {
	out := make([]*entry, 0, len(was)+len(now))
	for len(was) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(was) > 0 && was[0].Version < now[0].Version:
			copied := *was[0] // others still read the old one
			out, was = append(out, &copied), was[1:]
		default:
			if len(was) > 0 && was[0].Version == now[0].Version {
				was = was[1:]
			}
			out, now = append(out, now[0]), now[1:]
		}
	}
	newest := newestOf(out)
	for i, e := range out {
		e.latest = e == newest
		if i == 0 {
			continue
		}
		// Versions of a server share its name and mostly its text: one copy of
		// each is kept.
		e.Name = out[0].Name
		if e.Search == out[i-1].Search {
			e.Search = out[i-1].Search
		}
	}
	return out
}

// newestOf is the latest version: among those that are not deleted, if there are
// any.
func newestOf(versions []*entry) *entry {
	var newest *entry
	for _, e := range versions {
		if newest == nil || isNewer(e, newest) {
			newest = e
		}
	}
	return newest
}

func isNewer(a, b *entry) bool {
	if live := a.Status != registry.Deleted; live != (b.Status != registry.Deleted) {
		return live
	}
	return compareAge(&a.Head, &b.Head) > 0
}

// compareAge orders versions by age, as the official registry does: by Semantic
// Versioning where both follow it, else by the time of publication.
func compareAge(a, b *store.Head) int {
	if c := registry.CompareVersions(a.Version, b.Version); c != 0 {
		return c
	}
	if c := a.PublishedAt.Compare(b.PublishedAt); c != 0 {
		return c
	}
	return strings.Compare(a.Version, b.Version)
}
