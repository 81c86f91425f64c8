package sqlstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// sourceRow is a source as the database has it.
type sourceRow struct {
	store.Revision
	id int64
}

// sourceOf reads a source; sql.ErrNoRows when it is not there.
func sourceOf(ctx context.Context, tx *sql.Tx, source, forUpdate string) (sourceRow, error) {
	return scanSource(tx.QueryRowContext(ctx, "SELECT "+sourceColumns+" FROM source WHERE name = $1"+forUpdate, source).Scan)
}

const sourceColumns = "id, name, epoch, revision, updated_at"

func scanSource(scan scanner) (sourceRow, error) {
	var r sourceRow
	var updated int64
	err := scan(&r.id, &r.Source, &r.Epoch, &r.Number, &updated)
	r.At = fromMicros(updated)
	return r, err
}

// lockSource is the first thing that a transaction does that writes versions:
// nobody else then writes those of the source until it ends. It makes the source
// if it is not known.
func (s *Store) lockSource(ctx context.Context, tx *sql.Tx, source string) (sourceRow, error) {
	for range 2 {
		locked, err := sourceOf(ctx, tx, source, s.dialect.ForUpdate)
		if !errors.Is(err, sql.ErrNoRows) {
			return locked, err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO source (name, epoch, revision) VALUES ($1, $2, 0) ON CONFLICT (name) DO NOTHING",
			source, rand.Text())
		if err != nil {
			return locked, err
		}
	}
	return sourceRow{}, fmt.Errorf("source %s vanishes as soon as it is made", source)
}

// advance gives a locked source its next revision, and what was written with that
// its time. From here on all that write wait for this transaction, whatever their
// source: so it comes last, when all else is written, and locks nothing after it.
func (s *Store) advance(ctx context.Context, tx *sql.Tx, source sourceRow) (time.Time, error) {
	var now int64
	query := "UPDATE clock SET last = " + s.dialect.Greatest + "(last + 1, " + s.dialect.Now + ") RETURNING last"
	if err := tx.QueryRowContext(ctx, query).Scan(&now); err != nil {
		return time.Time{}, err
	}
	query = "UPDATE version SET updated_at = $1"
	for _, column := range []string{"published_at", "status_changed_at"} {
		query += fmt.Sprintf(", %s = CASE %s WHEN %d THEN $1 ELSE %s END", column, column, micros(time.Time{}), column)
	}
	if _, err := tx.ExecContext(ctx, query+" WHERE source_id = $2 AND revision = $3", now, source.id, source.Number+1); err != nil {
		return time.Time{}, err
	}
	_, err := tx.ExecContext(ctx, "UPDATE source SET revision = $1, updated_at = $2 WHERE id = $3", source.Number+1, now, source.id)
	return fromMicros(now), err
}

// change writes rows, if there are any, as the next change of a locked source, and
// gives them their IDs and times.
func (s *Store) change(ctx context.Context, tx *sql.Tx, source sourceRow, rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	if err := s.put(ctx, tx, source, rows); err != nil {
		return err
	}
	at, err := s.advance(ctx, tx, source)
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

// row is a version on its way into the database.
type row struct {
	store.Version
	digest []byte // of the document
	// withDocument: the document is to be written too.
	withDocument bool
}

func newRow(v store.Version) row {
	digest := sha256.Sum256(v.Document)
	return row{Version: v, digest: digest[:], withDocument: true}
}

func (r row) key() [2]string { return [2]string{r.Name, r.Version.Version} }

// exact is the version as it will come back.
func exact(v store.Version) store.Version {
	v.PublishedAt = fromMicros(micros(v.PublishedAt))
	v.StatusChangedAt = fromMicros(micros(v.StatusChangedAt))
	return v
}

// Update implements store.Store.
func (s *Store) Update(ctx context.Context, source, name, version string, change func(*store.Version) error) (store.Version, error) {
	what := fmt.Sprintf("change version %s of %s", version, name)
	if !storable(version) {
		return store.Version{}, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	changed, err := s.modify(ctx, what, source, name, " AND version = $3", []any{version}, change)
	if err != nil {
		return store.Version{}, err
	}
	return changed[0], nil
}

// UpdateAll implements store.Store.
func (s *Store) UpdateAll(ctx context.Context, source, name string, change func(*store.Version) error) ([]store.Version, error) {
	return s.modify(ctx, "change all versions of "+name, source, name, "", nil, change)
}

// modify alters the versions of a server that the condition, which continues a
// WHERE clause with two arguments before it, selects.
func (s *Store) modify(ctx context.Context, what, source, name, condition string, more []any, change func(*store.Version) error) ([]store.Version, error) {
	if !storable(source, name) {
		return nil, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	query := "SELECT " + headColumns + ", body FROM version JOIN document ON version_id = id WHERE source_id = $1 AND name = $2" + condition
	var out []store.Version
	err := s.write(ctx, what, s.limits.Short, func(ctx context.Context, tx *sql.Tx) error {
		locked, err := s.lockSource(ctx, tx, source)
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
		if err := s.change(ctx, tx, locked, changed); err != nil {
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

// alter lets change have its way with the versions, and returns those that are
// different afterwards, and where they are among the versions.
func alter(versions []store.Version, change func(*store.Version) error) (changed []row, at []int, err error) {
	for i := range versions {
		v := &versions[i]
		before := *v
		// The caller's to alter, and what was there still to be compared with.
		v.Document = append([]byte(nil), before.Document...)
		if err := change(v); err != nil {
			return nil, nil, callerError{err}
		}
		if v.ID != before.ID || v.Source != before.Source || v.Name != before.Name || v.Version != before.Version {
			return nil, nil, fmt.Errorf("version %s of %s cannot become another one", before.Version, before.Name)
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
