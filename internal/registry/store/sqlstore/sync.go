package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// syncs keeps the state of the synchronization of each source.
type syncs struct {
	db     *database
	leases leases
}

const syncColumns = "source, phase, last_attempt, last_success, failures, error, servers, versions, malformed, others, left_out, digest"

// Syncs implements store.Store.
func (s syncs) Syncs(ctx context.Context, sources []string) ([]store.Sync, error) {
	known := make(map[string]store.Sync, len(sources))
	err := s.db.do(ctx, "read how the synchronization of the sources goes", s.db.limits.Short, func(ctx context.Context) error {
		return each(ctx, s.db.reader, "SELECT "+syncColumns+" FROM sync", nil, func(scan scanner) error {
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
func (s syncs) SetSync(ctx context.Context, owner string, state store.Sync) error {
	if err := checkSync(&state); err != nil {
		return fmt.Errorf("record how the synchronization of a source goes: %w", err)
	}
	what := "record how the synchronization of source " + state.Source + " goes"
	return s.db.write(ctx, what, s.db.limits.Short, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.leases.holds(ctx, tx, state.Source, owner); err != nil {
			return err
		}
		return s.put(ctx, tx, state)
	})
}

func (s syncs) put(ctx context.Context, tx *sql.Tx, y store.Sync) error {
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
