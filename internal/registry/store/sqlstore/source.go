package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// sources keeps the sources and their revisions.
type sources struct{ db *database }

// Revisions implements store.Store.
func (s sources) Revisions(ctx context.Context, sources []string) ([]store.Revision, error) {
	const what = "read the revisions of the sources"
	if err := checkSources(sources); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	known := make(map[string]store.Revision, len(sources))
	readAll := func(ctx context.Context) error {
		// All sources, configured or not, in one statement: their revisions are of
		// one moment.
		return each(ctx, s.db.reader, "SELECT "+sourceColumns+" FROM source", nil, func(scan scanner) error {
			r, err := scanSource(scan)
			known[r.Source] = r.Revision
			return err
		})
	}
	if err := s.db.do(ctx, what, s.db.limits.Short, readAll); err != nil {
		return nil, err
	}
	var missing []string
	for _, source := range sources {
		if _, ok := known[source]; !ok {
			missing = append(missing, source)
		}
	}
	slices.Sort(missing) // two processes that create them do not deadlock
	if len(missing) > 0 {
		err := s.db.write(ctx, what, s.db.limits.Short, func(ctx context.Context, tx *sql.Tx) error {
			for _, source := range missing {
				if _, err := s.lock(ctx, tx, source); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = s.db.do(ctx, what, s.db.limits.Short, readAll) // again: all revisions must be of one moment
		}
		if err != nil {
			return nil, err
		}
	}
	out := make([]store.Revision, len(sources))
	for i, source := range sources {
		out[i] = known[source]
	}
	return out, nil
}

// sourceRow is a row of the table source.
type sourceRow struct {
	store.Revision
	id int64
}

// sourceOf reads a source. The error is sql.ErrNoRows when it does not exist.
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

// lock is the first step of a transaction that writes versions: no other transaction
// writes versions of the source until it ends. It creates the source if it does not
// exist.
func (s sources) lock(ctx context.Context, tx *sql.Tx, source string) (sourceRow, error) {
	for range 2 {
		locked, err := sourceOf(ctx, tx, source, s.db.dialect.ForUpdate)
		if !errors.Is(err, sql.ErrNoRows) {
			return locked, err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO source (name, epoch, revision) VALUES ($1, $2, 0) ON CONFLICT (name) DO NOTHING",
			source, rand.Text())
		if err != nil {
			return locked, err
		}
	}
	return sourceRow{}, fmt.Errorf("source %s was deleted after it was created", source)
}

// advance sets the next revision of a locked source, and the times of the versions
// written with it. Afterwards the transactions of all sources wait for this one, so it
// is the last step and nothing is locked after it.
func (s sources) advance(ctx context.Context, tx *sql.Tx, source sourceRow) (time.Time, error) {
	var now int64
	query := "UPDATE clock SET last = " + s.db.dialect.Greatest + "(last + 1, " + s.db.dialect.Now + ") RETURNING last"
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
