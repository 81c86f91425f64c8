package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// change writes rows, if there are any, as the next revision of a locked source, and
// sets their IDs and times.
func (w versionWriter) change(ctx context.Context, tx *sql.Tx, source sourceRow, rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	if err := w.put(ctx, tx, source, rows); err != nil {
		return err
	}
	at, err := w.sources.advance(ctx, tx, source)
	for i := range rows {
		r := &rows[i]
		r.UpdatedAt = at
		for _, t := range []*time.Time{&r.PublishedAt, &r.StatusChangedAt} {
			if t.IsZero() {
				*t = at
			}
		}
	}
	return err
}

// row is a version to be written.
type row struct {
	store.Version
	digest []byte // of the document
	// withDocument: the document is written too.
	withDocument bool
}

func newRow(v store.Version) row {
	digest := sha256.Sum256(v.Document)
	return row{Version: v, digest: digest[:], withDocument: true}
}

func (r row) key() [2]string { return [2]string{r.Name, r.Version.Version} }

// exact returns the version as it will be read back.
func exact(v store.Version) store.Version {
	v.PublishedAt = fromMicros(micros(v.PublishedAt))
	v.StatusChangedAt = fromMicros(micros(v.StatusChangedAt))
	return v
}

// Update implements store.Store.
func (w versionWriter) Update(ctx context.Context, source, name, version string, change func(*store.Version) error) (store.Version, error) {
	what := fmt.Sprintf("change version %s of %s", version, name)
	if !storable(version) {
		return store.Version{}, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	changed, err := w.modify(ctx, what, source, name, " AND version = $3", []any{version}, change)
	if err != nil {
		return store.Version{}, err
	}
	return changed[0], nil
}

// UpdateAll implements store.Store.
func (w versionWriter) UpdateAll(ctx context.Context, source, name string, change func(*store.Version) error) ([]store.Version, error) {
	return w.modify(ctx, "change all versions of "+name, source, name, "", nil, change)
}

// modify alters the versions of a server that the condition, which continues a
// WHERE clause with two arguments before it, selects.
func (w versionWriter) modify(ctx context.Context, what, source, name, condition string, more []any, change func(*store.Version) error) ([]store.Version, error) {
	if !storable(source, name) {
		return nil, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	query := "SELECT " + headColumns + ", body FROM version JOIN document ON version_id = id WHERE source_id = $1 AND name = $2" + condition
	var out []store.Version
	err := w.db.write(ctx, what, w.db.limits.Short, func(ctx context.Context, tx *sql.Tx) error {
		locked, err := w.sources.lock(ctx, tx, source)
		if err != nil {
			return err
		}
		out = nil
		err = each(ctx, tx, query, append([]any{locked.id, name}, more...), func(scan scanner) error {
			v := store.Version{Head: store.Head{Source: source}}
			var body []byte
			if err := scanHead(scan, &v.Head, &body); err != nil {
				return err
			}
			v.Document = body
			out = append(out, v)
			return nil
		})
		if err != nil {
			return err
		}
		if len(out) == 0 {
			return store.ErrNotFound
		}
		changed, at, err := alter(out, change)
		if err != nil {
			return err
		}
		if err := w.change(ctx, tx, locked, changed); err != nil {
			return err
		}
		for i, r := range changed {
			out[at[i]] = r.Version
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// alter calls change for each version. It returns the versions that differ
// afterwards, and their indexes.
func alter(versions []store.Version, change func(*store.Version) error) (changed []row, at []int, err error) {
	for i := range versions {
		v := &versions[i]
		before := *v
		// A copy: the caller may alter it, and it is compared with the old one below.
		v.Document = append([]byte(nil), before.Document...)
		if err := change(v); err != nil {
			return nil, nil, callerError{err}
		}
		if v.ID != before.ID || v.Source != before.Source || v.Name != before.Name || v.Version != before.Version {
			return nil, nil, fmt.Errorf("version %s of %s cannot change its ID, source, name or version", before.Version, before.Name)
		}
		if err := check(v); err != nil {
			return nil, nil, err
		}
		v.UpdatedAt = before.UpdatedAt
		*v = exact(*v)
		r := newRow(*v)
		r.withDocument = string(v.Document) != string(before.Document)
		if r.withDocument || v.Head != before.Head {
			changed, at = append(changed, r), append(at, i)
		}
	}
	return changed, at, nil
}
