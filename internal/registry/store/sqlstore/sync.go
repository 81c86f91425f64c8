package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// Acquire implements store.Store.
func (s *Store) Acquire(ctx context.Context, source, owner string, lasts time.Duration) (bool, error) {
	if err := errors.Join(checkKey("source", source), checkKey("owner", owner)); err != nil {
		return false, fmt.Errorf("take the lease on a source: %w", err)
	}
	query := `
INSERT INTO lease (source, owner, expires) VALUES ($1, $2, ` + s.dialect.Now + ` + $3)
ON CONFLICT (source) DO UPDATE SET owner = excluded.owner, expires = excluded.expires
	WHERE lease.owner = excluded.owner OR lease.expires <= ` + s.dialect.Now
	var taken bool
	err := s.write(ctx, "take the lease on source "+source, s.limits.Short, func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, query, source, owner, lasts.Microseconds())
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		taken = n > 0
		return err
	})
	return taken && err == nil, err
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, source, owner string) error {
	if !storable(source, owner) {
		return nil // such a lease was never given
	}
	return s.write(ctx, "release the lease on source "+source, s.limits.Short, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM lease WHERE source = $1 AND owner = $2", source, owner)
		return err
	})
}

// holds fails unless the owner holds the lease, which nobody else can take then
// until the transaction ends.
func (s *Store) holds(ctx context.Context, tx *sql.Tx, source, owner string) error {
	if !storable(owner) {
		return store.ErrLeaseLost
	}
	var one int
	query := "SELECT 1 FROM lease WHERE source = $1 AND owner = $2 AND expires > " + s.dialect.Now + s.dialect.ForUpdate
	err := tx.QueryRowContext(ctx, query, source, owner).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrLeaseLost
	}
	return err
}

const syncColumns = "source, phase, last_attempt, last_success, failures, error, servers, versions, malformed, others, left_out, digest"

// Syncs implements store.Store.
func (s *Store) Syncs(ctx context.Context, sources []string) ([]store.Sync, error) {
	known := make(map[string]store.Sync, len(sources))
	err := s.do(ctx, "read how the synchronization of the sources goes", s.limits.Short, func(ctx context.Context) error {
		return each(ctx, s.reader, "SELECT "+syncColumns+" FROM sync", nil, func(scan scanner) error {
			var y store.Sync
			var attempt, success int64
			err := scan(&y.Source, &y.Phase, &attempt, &success, &y.Failures, &y.Error, &y.Servers, &y.Versions,
				&y.Malformed, &y.Others, &y.LeftOut, &y.Digest)
			y.LastAttempt, y.LastSuccess = fromMicros(attempt), fromMicros(success)
			known[y.Source] = y
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	out := make([]store.Sync, len(sources))
	for i, source := range sources {
		out[i] = known[source]
		out[i].Source = source
	}
	return out, nil
}

// SetSync implements store.Store.
func (s *Store) SetSync(ctx context.Context, owner string, state store.Sync) error {
	if err := checkSync(&state); err != nil {
		return fmt.Errorf("record how the synchronization of a source goes: %w", err)
	}
	what := "record how the synchronization of source " + state.Source + " goes"
	return s.write(ctx, what, s.limits.Short, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.holds(ctx, tx, state.Source, owner); err != nil {
			return err
		}
		return s.putSync(ctx, tx, state)
	})
}

func (s *Store) putSync(ctx context.Context, tx *sql.Tx, y store.Sync) error {
	query := "INSERT INTO sync (" + syncColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (source) DO UPDATE SET
	phase = excluded.phase, last_attempt = excluded.last_attempt, last_success = excluded.last_success,
	failures = excluded.failures, error = excluded.error, servers = excluded.servers,
	versions = excluded.versions, malformed = excluded.malformed, others = excluded.others,
	left_out = excluded.left_out, digest = excluded.digest`
	_, err := tx.ExecContext(ctx, query, y.Source, y.Phase, micros(y.LastAttempt), micros(y.LastSuccess),
		y.Failures, clean(y.Error), y.Servers, y.Versions, y.Malformed, y.Others, clean(y.LeftOut), y.Digest)
	return err
}
