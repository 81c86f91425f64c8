package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

const headColumns = "id, name, version, status, status_message, published_at, updated_at, status_changed_at, search"

// scanHead reads headColumns, and more after them.
func scanHead(scan scanner, h *store.Head, more ...any) error {
	var published, updated, changed int64
	dest := []any{&h.ID, &h.Name, &h.Version, &h.Status, &h.StatusMessage, &published, &updated, &changed, &h.Search}
	if err := scan(append(dest, more...)...); err != nil {
		return err
	}
	h.PublishedAt, h.UpdatedAt, h.StatusChangedAt = fromMicros(published), fromMicros(updated), fromMicros(changed)
	return nil
}

// versionReader reads versions.
type versionReader struct {
	db      *database
	sources sources
}

// Changes implements store.Store.
func (v versionReader) Changes(ctx context.Context, source string, since int64, each func(store.Head) error) (store.Revision, error) {
	if err := checkKey("source", source); err != nil {
		return store.Revision{}, fmt.Errorf("read the changes of a source: %w", err)
	}
	what := "read the changes of source " + source
	for range 2 {
		revision, err := v.changes(ctx, what, source, since, each)
		if !errors.Is(err, sql.ErrNoRows) {
			return revision, err
		}
		// Create the source and read again: it may have changes by now.
		if _, err := v.sources.Revisions(ctx, []string{source}); err != nil {
			return store.Revision{}, err
		}
	}
	return store.Revision{}, fmt.Errorf("%s: the source was deleted after it was created", what)
}

// changes fails with sql.ErrNoRows when there is no such source.
func (v versionReader) changes(ctx context.Context, what, source string, since int64, each func(store.Head) error) (store.Revision, error) {
	revision := store.Revision{Source: source}
	given := false
	err := v.db.do(ctx, what, v.db.limits.Long, func(ctx context.Context) error {
		err := v.db.read(ctx, func(tx *sql.Tx) error {
			from, err := sourceOf(ctx, tx, source, "")
			revision = from.Revision
			if err != nil || since >= revision.Number {
				return err
			}
			return heads(ctx, tx, from.id, since, func(h store.Head) error {
				h.Source, given = source, true
				return each(h)
			})
		})
		if given && err != nil && !errors.As(err, new(callerError)) && v.db.dialect.Fault(err) != Other {
			// The heads passed to the caller must not be passed again.
			return cutShort{err}
		}
		return err
	})
	var cut cutShort
	if errors.As(err, &cut) {
		return store.Revision{}, unavailable(what, cut.error)
	}
	if err != nil {
		return store.Revision{}, err
	}
	return revision, nil
}

// cutShort is a fault after some rows were read. It hides its cause, so that do does
// not try again.
type cutShort struct{ error }

// heads passes the heads of the versions that changed after a revision to give.
func heads(ctx context.Context, tx *sql.Tx, id, since int64, give func(store.Head) error) error {
	query := "SELECT " + headColumns + " FROM version WHERE source_id = $1 AND revision > $2"
	return each(ctx, tx, query, []any{id, since}, func(scan scanner) error {
		var h store.Head
		if err := scanHead(scan, &h); err != nil {
			return err
		}
		if err := give(h); err != nil {
			return callerError{err}
		}
		return nil
	})
}

// maxIDs is how many documents one statement reads.
const maxIDs = 512

// Documents implements store.Store.
func (v versionReader) Documents(ctx context.Context, ids []int64) (map[int64]json.RawMessage, error) {
	out := make(map[int64]json.RawMessage, len(ids))
	for len(ids) > 0 {
		some := ids[:min(len(ids), maxIDs)]
		ids = ids[len(some):]
		// The length is a power of two, with the last ID repeated, so that few
		// different statements are prepared.
		args := make([]any, 1<<bits.Len(uint(len(some)-1)))
		for i := range args {
			args[i] = some[min(i, len(some)-1)]
		}
		query := "SELECT version_id, body FROM document WHERE version_id IN " + v.db.tuples(1, len(args))
		err := v.db.do(ctx, "read documents", v.db.limits.Short, func(ctx context.Context) error {
			return each(ctx, v.db.reader, query, args, func(scan scanner) error {
				var id int64
				var body []byte
				if err := scan(&id, &body); err != nil {
					return err
				}
				out[id] = body
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// scanner is [sql.Rows.Scan].
type scanner func(dest ...any) error

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// each calls f for each row of the result.
func each(ctx context.Context, q querier, query string, args []any, f func(scanner) error) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
