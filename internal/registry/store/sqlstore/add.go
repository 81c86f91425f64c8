package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// versionWriter writes versions, each in a transaction that locks their source.
type versionWriter struct {
	db      *database
	sources sources
}

// Insert implements store.Store.
func (w versionWriter) Insert(ctx context.Context, v store.Version) (store.Version, error) {
	rows, err := prepare(v.Source, []store.Version{v})
	if err != nil {
		return store.Version{}, fmt.Errorf("add a version: %w", err)
	}
	what := fmt.Sprintf("add version %s of %s", v.Version, v.Name)
	rows, outcomes, err := w.add(ctx, what, w.db.limits.Short, v.Source, rows, false)
	if err != nil {
		return store.Version{}, err
	}
	if outcomes[0] != store.Added {
		return store.Version{}, fmt.Errorf("%s: %w", what, store.ErrExists)
	}
	return rows[0].Version, nil
}

// Add implements store.Store.
func (w versionWriter) Add(ctx context.Context, source string, versions []store.Version, replace bool) ([]store.Outcome, error) {
	what := "add versions to source " + source
	rows, err := prepare(source, versions)
	if err != nil {
		return nil, fmt.Errorf("add versions to a source: %w", err)
	}
	_, outcomes, err := w.add(ctx, what, w.db.limits.Long, source, rows, replace)
	return outcomes, err
}

// add also returns the rows. Those that it wrote have their IDs and times.
func (w versionWriter) add(ctx context.Context, what string, limit time.Duration, source string, given []row, replace bool) (rows []row, outcomes []store.Outcome, err error) {
	outcomes = make([]store.Outcome, len(given))
	err = w.db.write(ctx, what, limit, func(ctx context.Context, tx *sql.Tx) error {
		locked, err := w.sources.lock(ctx, tx, source)
		if err != nil {
			return err
		}
		rows = slices.Clone(given)
		stored, err := w.stored(ctx, tx, locked, rows)
		if err != nil {
			return err
		}
		var written []row
		var at []int // the index of each written row in rows
		for i, r := range rows {
			was := stored[r.key()]
			switch {
			case was == nil:
				outcomes[i] = store.Added
			case bytes.Equal(was.digest, r.digest):
				outcomes[i] = store.Same
				continue
			case !replace:
				outcomes[i] = store.Differs
				continue
			default:
				outcomes[i] = store.Replaced
				was.Search, was.Source = r.Search, source
				r.Head = was.Head
			}
			written, at = append(written, r), append(at, i)
		}
		if err := w.change(ctx, tx, locked, written); err != nil {
			return err
		}
		for i, r := range written {
			rows[at[i]] = r
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return rows, outcomes, nil
}

// stored returns the stored versions of the rows, by name and version.
func (w versionWriter) stored(ctx context.Context, tx *sql.Tx, source sourceRow, rows []row) (map[[2]string]*existing, error) {
	found := map[[2]string]*existing{}
	for len(rows) > 0 {
		n := min(len(rows), maxRows)
		args := make([]any, 0, 2*n+1)
		for _, r := range rows[:n] {
			args = append(args, r.Name, r.Version.Version)
		}
		args = append(args, source.id)
		query := "SELECT " + headColumns + ", digest FROM version WHERE (name, version) IN (VALUES " + w.db.tuples(n, 2) +
			") AND source_id = " + w.db.dialect.Placeholder(len(args))
		err := each(ctx, tx, query, args, func(scan scanner) error {
			e, err := scanExisting(scan)
			found[e.key()] = e
			return err
		})
		if err != nil {
			return nil, err
		}
		rows = rows[n:]
	}
	return found, nil
}
