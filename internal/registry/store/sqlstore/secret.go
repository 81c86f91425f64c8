package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// secrets keeps what all processes on one database share.
type secrets struct{ db *database }

// Secret implements store.Store.
func (s secrets) Secret(ctx context.Context, name string, create func() ([]byte, error)) ([]byte, error) {
	if err := checkKey("name", name); err != nil {
		return nil, fmt.Errorf("read a secret: %w", err)
	}
	var value []byte
	find := func(ctx context.Context) error {
		return s.db.reader.QueryRowContext(ctx, "SELECT value FROM secret WHERE name = $1", name).Scan(&value)
	}
	err := s.db.do(ctx, "read secret "+name, s.db.limits.Short, find)
	if !errors.Is(err, sql.ErrNoRows) {
		return value, err
	}
	made, err := create()
	if err != nil {
		return nil, err
	}
	if len(made) == 0 {
		return nil, fmt.Errorf("keep secret %s: it is empty", name)
	}
	err = s.db.write(ctx, "keep secret "+name, s.db.limits.Short, func(ctx context.Context, tx *sql.Tx) error {
		// The secret of another process that was faster is kept.
		_, err := tx.ExecContext(ctx, "INSERT INTO secret (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", name, made)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.db.do(ctx, "read secret "+name, s.db.limits.Short, find); err != nil {
		return nil, err
	}
	return value, nil
}
