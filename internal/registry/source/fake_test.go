package source

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// memory is a store of the parts that synchronization uses.
type memory struct {
	store.Store // the rest is not called
	mu          sync.Mutex
	versions    map[string]map[[2]string]store.Version
	syncs       map[string]store.Sync
	leases      map[string]lease
	replaced    int
	broken      error // answers everything, while set
}

type lease struct {
	owner string
	until time.Time
}

func newMemory() *memory {
	return &memory{versions: map[string]map[[2]string]store.Version{}, syncs: map[string]store.Sync{}, leases: map[string]lease{}}
}

func (m *memory) breakWith(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = err
}

func (m *memory) held(source, owner string) bool {
	l := m.leases[source]
	return l.owner == owner && time.Now().Before(l.until)
}

func (m *memory) Acquire(ctx context.Context, source, owner string, lasts time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := cmpErr(ctx.Err(), m.broken); err != nil {
		return false, err
	}
	if l := m.leases[source]; l.owner != owner && time.Now().Before(l.until) {
		return false, nil
	}
	m.leases[source] = lease{owner, time.Now().Add(lasts)}
	return true, nil
}

func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) Release(ctx context.Context, source, owner string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := cmpErr(ctx.Err(), m.broken); err != nil {
		return err
	}
	if m.leases[source].owner == owner {
		delete(m.leases, source)
	}
	return nil
}

func (m *memory) Syncs(ctx context.Context, sources []string) ([]store.Sync, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := cmpErr(ctx.Err(), m.broken); err != nil {
		return nil, err
	}
	var out []store.Sync
	for _, s := range sources {
		state := m.syncs[s]
		state.Source = s
		out = append(out, state)
	}
	return out, nil
}

func (m *memory) SetSync(ctx context.Context, owner string, state store.Sync) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := cmpErr(ctx.Err(), m.broken); err != nil {
		return err
	}
	if !m.held(state.Source, owner) {
		return store.ErrLeaseLost
	}
	m.syncs[state.Source] = state
	return nil
}

func (m *memory) Replace(ctx context.Context, source, owner string, versions []store.Version, state store.Sync) (store.Stats, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var stats store.Stats
	if err := cmpErr(ctx.Err(), m.broken); err != nil {
		return stats, err
	}
	if !m.held(source, owner) {
		return stats, store.ErrLeaseLost
	}
	m.replaced++
	now := time.Now()
	had := m.versions[source]
	if had == nil {
		had = map[[2]string]store.Version{}
		m.versions[source] = had
	}
	listed := map[[2]string]bool{}
	for _, v := range versions {
		key := [2]string{v.Name, v.Version}
		listed[key] = true
		old, known := had[key]
		switch {
		case known && string(old.Document) == string(v.Document) && old.Status == v.Status && old.StatusMessage == v.StatusMessage && old.Search == v.Search:
			stats.Unchanged++
			continue
		case known:
			stats.Changed++
		default:
			stats.Added++
		}
		if v.PublishedAt.IsZero() {
			if v.PublishedAt = old.PublishedAt; !known {
				v.PublishedAt = now
			}
		}
		had[key] = v
	}
	for key, v := range had {
		if !listed[key] && v.Status != "deleted" {
			v.Status, v.UpdatedAt = "deleted", now
			had[key] = v
			stats.Deleted++
		}
	}
	m.syncs[source] = state
	return stats, nil
}

// list is what a source has, as name@version=status, but for what is deleted.
func (m *memory) list(source string) map[string]json.RawMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]json.RawMessage{}
	for key, v := range m.versions[source] {
		if v.Status != "deleted" {
			out[key[0]+"@"+key[1]] = v.Document
		}
	}
	return out
}

func (m *memory) sync(source string) store.Sync {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.syncs[source]
}
