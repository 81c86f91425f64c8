// Package sqlstore is the one implementation of store.Store, over database/sql.
// Packages sqlite and postgres open a database, describe it by a [Dialect], and
// pass it to [New].
//
// The rule that everything rests on: a transaction that writes versions locks
// its source first and stamps what it writes with the next revision of that
// source. So revisions become visible in their order, and a reader that has a
// revision has every change up to it. The last thing that it does is to take
// the one clock of the database, for the time of the change (see advance): so
// times too become visible in their order, across all sources.
//
// Three tables hold a version: source has its name and revision, version what a
// list and a search need, document the text. Reading heads touches no text.
package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// Dialect is how a database differs from the other.
type Dialect struct {
	// Placeholder of the n-th argument of a long statement, from 1. Short ones
	// use $1, which both support.
	Placeholder func(n int) string
	// ForUpdate follows a SELECT in a writing transaction that locks its rows; ""
	// where such a transaction is alone anyway.
	ForUpdate string
	// Now is an SQL expression: the database's clock, in microseconds since 1970.
	Now string
	// Greatest is the function that gives the greatest of its arguments.
	Greatest string
	// Fault classifies an error of the driver.
	Fault func(error) Fault
	// Ready, if any, is called before each call: its error is why the database is
	// unavailable though it responds.
	Ready func() error
}

// Fault is the class of an error of a driver.
type Fault int

// Faults.
const (
	// Other fails however often it is tried.
	Other Fault = iota
	// Conflict is with another transaction, which won; the next try may.
	Conflict
	// Busy: another process holds the lock; it will give it up.
	Busy
	// Lost is a connection that broke; another may be whole.
	Lost
	// Unavailable: there is no point in trying again at once.
	Unavailable
	// Full: the disk is full.
	Full
)

// Limits bound the time of a call whose context does not; the error is then
// store.ErrUnavailable.
type Limits struct {
	// Short is for everything but Changes and Replace, which take Long.
	Short, Long time.Duration
}

// DefaultLimits suit a database that is not far away.
func DefaultLimits() Limits { return Limits{Short: 15 * time.Second, Long: 5 * time.Minute} }

// Store implements store.Store.
type Store struct {
	reader, writer *sql.DB
	dialect        Dialect
	limits         Limits
	full           atomic.Bool // the last write that needed room found none
}

var _ store.Store = (*Store)(nil)

// New makes a Store over a migrated database. reader and writer may be the same;
// the Store closes them.
func New(reader, writer *sql.DB, dialect Dialect, limits Limits) *Store {
	return &Store{reader: reader, writer: writer, dialect: dialect, limits: limits}
}

// Ping implements store.Store.
func (s *Store) Ping(ctx context.Context) error {
	if s.full.Load() {
		if err := s.probe(ctx); err != nil {
			return err
		}
		s.full.Store(false)
	}
	return s.do(ctx, "ping the database", s.limits.Short, func(ctx context.Context) error {
		var one int
		return s.reader.QueryRowContext(ctx, "SELECT 1").Scan(&one)
	})
}

// probe writes and deletes what a document of usual size needs.
func (s *Store) probe(ctx context.Context) error {
	content := make([]byte, 64<<10)
	_, _ = rand.Read(content) // it never fails; zeros would be compressed
	const put = "INSERT INTO secret (name, value) VALUES ('probe', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
	for _, step := range []func(context.Context, *sql.Tx) error{
		func(ctx context.Context, tx *sql.Tx) error { _, err := tx.ExecContext(ctx, put, content); return err },
		func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "DELETE FROM secret WHERE name = 'probe'")
			return err
		},
	} {
		if err := s.write(ctx, "write to the database", s.limits.Short, step); err != nil {
			return err
		}
	}
	return nil
}

// Close implements store.Store.
func (s *Store) Close() error {
	err := s.reader.Close()
	if s.writer != s.reader {
		if werr := s.writer.Close(); err == nil {
			err = werr
		}
	}
	return err
}
