package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// leases allow one process at a time to synchronize a source.
type leases struct{ db *database }

// Acquire implements store.Store.
func (l leases) Acquire(ctx context.Context, source, owner string, lasts time.Duration) (bool, error) {
	if err := errors.Join(checkKey("source", source), checkKey("owner", owner)); err != nil {
		return false, fmt.Errorf("take the lease on a source: %w", err)
	}
	query := `
INSERT INTO lease (source, owner, expires) VALUES ($1, $2, ` + l.db.dialect.Now + ` + $3)
ON CONFLICT (source) DO UPDATE SET owner = excluded.owner, expires = excluded.expires
	WHERE lease.owner = excluded.owner OR lease.expires <= ` + l.db.dialect.Now
	var taken bool
	err := l.db.write(ctx, "take the lease on source "+source, l.db.limits.Short, func(ctx context.Context, tx *sql.Tx) error {
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
func (l leases) Release(ctx context.Context, source, owner string) error {
	if !storable(source, owner) {
		return nil // such a lease was never granted
	}
	return l.db.write(ctx, "release the lease on source "+source, l.db.limits.Short, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM lease WHERE source = $1 AND owner = $2", source, owner)
		return err
	})
}

// holds fails unless the owner holds the lease. No other owner can take the lease
// until the transaction ends.
func (l leases) holds(ctx context.Context, tx *sql.Tx, source, owner string) error {
	if !storable(owner) {
		return store.ErrLeaseLost
	}
	var one int
	query := "SELECT 1 FROM lease WHERE source = $1 AND owner = $2 AND expires > " + l.db.dialect.Now + l.db.dialect.ForUpdate
	err := tx.QueryRowContext(ctx, query, source, owner).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrLeaseLost
	}
	return err
}
