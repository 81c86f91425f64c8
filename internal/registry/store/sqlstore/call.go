package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// Bounds on retries, in addition to the time limit of the call.
const (
	// maxConflicts is how many transactions in a row may fail by conflicts.
	maxConflicts = 30
	// maxLost is how many broken connections are replaced in a row. A restart of
	// the database breaks all of a pool, 10 unless configured.
	maxLost = 50
)

// callerError is an error of the caller's function. It ends the call and is returned
// unchanged.
type callerError struct{ error }

// commitError is a failed COMMIT. It may have taken effect, so it is not tried again
// when the connection broke.
type commitError struct{ error }

func (e commitError) Unwrap() error { return e.error }

// do runs f until it succeeds or a retry cannot help, and returns its error as an
// error of package store. f must have no effect when it fails.
func (d *database) do(ctx context.Context, what string, limit time.Duration, f func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if d.dialect.Ready != nil {
		if err := d.dialect.Ready(); err != nil {
			return unavailable(what, err)
		}
	}
	var cause error // the last error before the time limit
	for conflicts, lost := 0, 0; ; {
		err := f(bounded)
		if err == nil {
			return nil
		}
		if cause == nil || bounded.Err() == nil {
			cause = err
		}
		var own callerError
		if errors.As(err, &own) {
			return own.error
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case bounded.Err() != nil:
			return fmt.Errorf("%s: %w: no answer within %s (%v)", what, store.ErrUnavailable, limit, plaintext.Line(cause.Error()))
		}
		switch d.dialect.Fault(err) {
		case Conflict:
			if conflicts++; conflicts > maxConflicts {
				return fmt.Errorf("%s: %w: %d other changes came first (%v)", what, store.ErrUnavailable, conflicts, plaintext.Line(err.Error()))
			}
			pause(bounded, time.Duration(min(conflicts, 20))*5*time.Millisecond)
			continue
		case Busy:
			pause(bounded, 20*time.Millisecond)
			continue
		case Lost:
			if errors.As(err, new(commitError)) {
				return fmt.Errorf("%s: %w while the change was being committed: it is not known whether it was (%v)",
					what, store.ErrUnavailable, plaintext.Line(err.Error()))
			}
			if lost++; lost > maxLost {
				return unavailable(what, err)
			}
			continue
		case Unavailable:
			return unavailable(what, err)
		case Full:
			d.full.Store(true)
			return fmt.Errorf("%s: %w: %v", what, store.ErrFull, plaintext.Line(err.Error()))
		}
		return fmt.Errorf("%s: %w", what, err)
	}
}

// unavailable keeps only the text of the cause: errors of a driver hold the
// configuration of the connection with its password.
func unavailable(what string, cause error) error {
	return fmt.Errorf("%s: %w: %v", what, store.ErrUnavailable, plaintext.Line(cause.Error()))
}

// pause waits for a random time up to d, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d/2 + rand.N(d/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// write runs f in a writing transaction, and again after a conflict.
func (d *database) write(ctx context.Context, what string, limit time.Duration, f func(context.Context, *sql.Tx) error) error {
	return d.do(ctx, what, limit, func(ctx context.Context) error {
		tx, err := d.writer.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // of no effect after Commit
		if err := f(ctx, tx); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return commitError{err}
		}
		return nil
	})
}

// read runs f in one snapshot of the database.
func (d *database) read(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := d.reader.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // of no effect after Commit
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}
