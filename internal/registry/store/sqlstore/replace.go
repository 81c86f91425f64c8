package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// statusDeleted is the status of what a source no longer lists (registry API v0.1).
const statusDeleted = "deleted"

// replacer makes the versions of a source what it lists.
type replacer struct {
	db       *database
	versions versionWriter
	leases   leases
	syncs    syncs
}

// Replace implements store.Store. The changes are computed before anything is
// locked, and computed again under the lock only if another process has changed the
// source in between. So the transaction contains no more than the changes.
func (p replacer) Replace(ctx context.Context, source, owner string, versions []store.Version, state store.Sync) (store.Stats, error) {
	what := "replace what source " + source + " lists"
	state.Source = source
	listed, err := prepare(source, versions)
	if err == nil {
		err = checkSync(&state)
	}
	if err != nil {
		return store.Stats{}, fmt.Errorf("replace what a source lists: %w", err)
	}
	var plan *plan
	err = p.db.do(ctx, what, p.db.limits.Long, func(ctx context.Context) error {
		return p.db.read(ctx, func(tx *sql.Tx) error {
			from, err := sourceOf(ctx, tx, source, "")
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			plan, err = newPlan(ctx, tx, from, listed)
			return err
		})
	})
	if err != nil {
		return store.Stats{}, err
	}
	err = p.db.write(ctx, what, p.db.limits.Long, func(ctx context.Context, tx *sql.Tx) error {
		if err := p.leases.holds(ctx, tx, source, owner); err != nil {
			return err
		}
		locked, err := p.versions.sources.lock(ctx, tx, source)
		if err != nil {
			return err
		}
		if plan.from != locked.Revision {
			if plan, err = newPlan(ctx, tx, locked, listed); err != nil {
				return err
			}
		}
		if err := p.syncs.put(ctx, tx, state); err != nil {
			return err
		}
		return p.carryOut(ctx, tx, locked, plan)
	})
	if err != nil {
		return store.Stats{}, err
	}
	return plan.stats, nil
}

// prepare checks the versions of a source. A version that is listed twice is an error.
func prepare(source string, versions []store.Version) ([]row, error) {
	if err := checkKey("source", source); err != nil {
		return nil, err
	}
	rows := make([]row, len(versions))
	seen := make(map[[2]string]bool, len(versions))
	for i, v := range versions {
		v.Source = source
		if err := check(&v); err != nil {
			return nil, err
		}
		key := [2]string{v.Name, v.Version}
		if seen[key] {
			return nil, fmt.Errorf("version %s of %s is listed twice", v.Version, v.Name)
		}
		seen[key] = true
		rows[i] = newRow(exact(v))
	}
	return rows, nil
}

// plan is the changes of a Replace to a source at one revision.
type plan struct {
	from  store.Revision
	put   []row
	gone  []int64 // to become deleted
	stats store.Stats
}

// existing is what is stored of a version, without its document.
type existing struct {
	store.Head
	digest []byte
	listed bool
}

func scanExisting(scan scanner) (*existing, error) {
	e := new(existing)
	return e, scanHead(scan, &e.Head, &e.digest)
}

func (e *existing) key() [2]string { return [2]string{e.Name, e.Version} }

// newPlan compares what is stored of a source with what it lists.
func newPlan(ctx context.Context, tx *sql.Tx, from sourceRow, listed []row) (*plan, error) {
	p := &plan{from: from.Revision}
	stored := make(map[[2]string]*existing, len(listed))
	query := "SELECT " + headColumns + ", digest FROM version WHERE source_id = $1"
	err := each(ctx, tx, query, []any{from.id}, func(scan scanner) error {
		e, err := scanExisting(scan)
		stored[e.key()] = e
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, r := range listed {
		was := stored[r.key()]
		if was != nil {
			was.listed = true
		}
		if was != nil && was.same(r) {
			p.stats.Unchanged++
			continue
		}
		if was == nil {
			p.stats.Added++
		} else {
			p.stats.Changed++
			r.withDocument = !bytes.Equal(was.digest, r.digest)
			keepTimes(&r.Head, was)
		}
		p.put = append(p.put, r)
	}
	for _, was := range stored {
		if !was.listed && was.Status != statusDeleted {
			p.gone = append(p.gone, was.ID)
		}
	}
	p.stats.Deleted = len(p.gone)
	return p, nil
}

func (e *existing) same(r row) bool {
	return e.Status == r.Status && e.StatusMessage == r.StatusMessage && e.Search == r.Search &&
		bytes.Equal(e.digest, r.digest)
}

// keepTimes keeps the stored times where the caller gives none.
func keepTimes(h *store.Head, was *existing) {
	if h.PublishedAt.IsZero() {
		h.PublishedAt = was.PublishedAt
	}
	if h.StatusChangedAt.IsZero() && was.Status == h.Status {
		h.StatusChangedAt = was.StatusChangedAt
	}
}

// carryOut writes the changes of a plan.
func (p replacer) carryOut(ctx context.Context, tx *sql.Tx, source sourceRow, todo *plan) error {
	if len(todo.put) == 0 && len(todo.gone) == 0 {
		return nil
	}
	if err := p.versions.put(ctx, tx, source, todo.put); err != nil {
		return err
	}
	for gone := todo.gone; len(gone) > 0; {
		n := min(len(gone), maxRows)
		args := []any{statusDeleted, micros(time.Time{}), source.Number + 1}
		list := ""
		for i, id := range gone[:n] {
			if i > 0 {
				list += ", "
			}
			args = append(args, id)
			list += p.db.dialect.Placeholder(len(args))
		}
		query := "UPDATE version SET status = " + p.db.dialect.Placeholder(1) + ", status_message = '', status_changed_at = " +
			p.db.dialect.Placeholder(2) + ", revision = " + p.db.dialect.Placeholder(3) + " WHERE id IN (" + list + ")"
		if _, err := tx.ExecContext(ctx, query, args...); err != nil {
			return err
		}
		gone = gone[n:]
	}
	_, err := p.versions.sources.advance(ctx, tx, source)
	return err
}
