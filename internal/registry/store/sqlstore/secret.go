package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Secret implements store.Store.
func (s *Store) Secret(ctx context.Context, name string, create func() ([]byte, error)) ([]byte, error) {
	if err := checkKey("name", name); err != nil {
		return nil, fmt.Errorf("read a secret: %w", err)
	}
	var value []byte
	find := func(ctx context.Context) error {
		return s.reader.QueryRowContext(ctx, "SELECT value FROM secret WHERE name = $1", name).Scan(&value)
	}
	err := s.do(ctx, "read secret "+name, s.limits.Short, find)
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
	err = s.write(ctx, "keep secret "+name, s.limits.Short, func(ctx context.Context, tx *sql.Tx) error {
		// Another process may have been quicker: then it is its secret.
		_, err := tx.ExecContext(ctx, "INSERT INTO secret (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", name, made)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.do(ctx, "read secret "+name, s.limits.Short, find); err != nil {
		return nil, err
	}
	return value, nil
}
