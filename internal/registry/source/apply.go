package source

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// previous is the digest of the stored content; "" if it was fetched or filtered under
// another configuration.
func (w *worker) previous(state store.Sync) string {
	made, digest, ok := strings.Cut(state.Digest, " ")
	if !ok || made != w.fingerprint {
		return ""
	}
	return digest
}

// attempt fetches and applies. state is the state during the attempt. On success the
// returned state is recorded.
func (w *worker) attempt(ctx context.Context, state store.Sync) (store.Sync, string, error) {
	if err := w.store.SetSync(ctx, w.Owner, state); err != nil {
		return state, Failed, fmt.Errorf("record that it is synchronized: %w", err)
	}
	previous := w.previous(state)
	fetched, err := w.fetch(ctx, previous)
	if err != nil {
		return state, Failed, err
	}
	now := w.Now().UTC().Truncate(time.Microsecond)
	done := state
	done.Phase, done.LastSuccess, done.Failures, done.Error = phaseComplete, now, 0, ""
	if fetched.Unchanged {
		if err := w.store.SetSync(ctx, w.Owner, done); err != nil {
			return state, Failed, fmt.Errorf("record that it is unchanged: %w", err)
		}
		return done, Unchanged, nil
	}
	entries, err := unique(fetched.Entries, &fetched.LeftOut)
	if err == nil {
		err = fetched.LeftOut.Unusable(len(entries))
	}
	if err != nil {
		return state, Failed, err
	}
	versions, servers := w.versions(entries, now)
	if err := w.shrunk(state, previous, servers); err != nil {
		return state, Failed, err
	}
	done.Servers, done.Versions = servers, len(versions)
	done.Malformed, done.Others, done.LeftOut = fetched.LeftOut.Malformed, fetched.LeftOut.Others, ""
	if done.Malformed > 0 {
		done.LeftOut = reasonText(errors.New(fetched.LeftOut.Why()))
	}
	done.Digest = w.fingerprint + " " + fetched.Digest
	w.applying.Store(true)
	defer w.applying.Store(false)
	stats, err := w.store.Replace(ctx, w.name, w.Owner, versions, done)
	if err != nil {
		return state, Failed, fmt.Errorf("write what it lists: %w", err)
	}
	if done.Malformed > 0 {
		w.Log.Warn("entries of a source cannot be used and are left out", "source", w.name, "malformed", done.Malformed, "reasons", done.LeftOut)
	}
	if done.Others > 0 {
		w.Log.Info("a source lists skills or plugins, which are left out", "source", w.name, "count", done.Others)
	}
	w.Log.Info("a source is synchronized", "source", w.name, "servers", servers, "versions", len(versions),
		"added", stats.Added, "changed", stats.Changed, "deleted", stats.Deleted)
	if stats.Added+stats.Changed+stats.Deleted == 0 {
		return done, Unchanged, nil
	}
	return done, Changed, nil
}

func (w *worker) fetch(ctx context.Context, previous string) (_ Fetched, err error) {
	defer guard(&err)
	return w.source.Fetch(ctx, previous)
}

// versions returns the entries that the filter selects, as they are stored, and the
// number of their servers.
func (w *worker) versions(entries []Entry, now time.Time) ([]store.Version, int) {
	var out []store.Version
	names := map[string]bool{}
	for i := range entries {
		e := &entries[i]
		if !selects(w.cfg.Filter, e) {
			continue
		}
		names[e.Name] = true
		head := store.Head{
			Source: w.name, Name: e.Name, Version: e.Version, Status: e.Status, StatusMessage: e.StatusMessage,
			PublishedAt: timeOf(e.PublishedAt, now), StatusChangedAt: timeOf(e.StatusChangedAt, now), Search: e.SearchText(),
		}
		out = append(out, store.Version{Head: head, Document: e.Raw})
	}
	return out, len(names)
}

// timeOf is a time as the store keeps it. A time in the future becomes now; the store
// fills in missing times.
func timeOf(t, now time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	t = t.UTC().Truncate(time.Microsecond)
	if t.After(now) {
		return now
	}
	return t
}

// A list that lost nearly all of its servers is more often a fault (an empty database
// of the other server, a broken generator) than intended. Applying it would remove
// the servers for all users.
const (
	shrinkFrom  = 10 // servers; smaller lists may shrink without limit
	shrinkShare = 10 // one of so many servers must remain
)

// shrunk refuses a list with less than a tenth of the servers of the last success under
// the same configuration, if those were ten or more. A registry server keeps all
// published servers, so an empty list of one is refused after a single server too.
func (w *worker) shrunk(state store.Sync, previous string, servers int) error {
	switch {
	case previous == "": // the first fetch of this configuration
	case state.Servers >= shrinkFrom && servers*shrinkShare < state.Servers,
		w.cfg.API != nil && servers == 0 && state.Servers > 0:
		return fmt.Errorf("it lists %d servers where it had %d: refused as a likely fault; if it is meant, give the source another name", servers, state.Servers)
	}
	return nil
}
