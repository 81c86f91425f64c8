// Package sqlstore is the one implementation of store.Store, over database/sql.
// Packages sqlite and postgres open a database, describe it by a [Dialect], and
// pass it to [New].
//
// A transaction that writes versions locks their source first and writes them with
// the next revision of that source. So revisions become visible in order, and a
// reader that has a revision has every change up to it. Its last step takes the time
// of the change from the one clock of the database (see advance). So times too become
// visible in order, across all sources.
//
// Three tables hold a version: source has the source's name and revision, version the
// columns for lists and searches, document the text. Heads are read without the text.
package sqlstore

import (
	"database/sql"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// Dialect holds the differences between databases.
type Dialect struct {
	// Placeholder of the n-th argument of a long statement, from 1. Short ones
	// use $1, which both support.
	Placeholder func(n int) string
	// ForUpdate follows a SELECT in a writing transaction that locks its rows; ""
	// where writing transactions exclude each other anyway.
	ForUpdate string
	// Now is an SQL expression: the database's clock, in microseconds since 1970.
	Now string
	// Greatest is the function that gives the greatest of its arguments.
	Greatest string
	// Fault classifies an error of the driver.
	Fault func(error) Fault
	// Ready, if not nil, is called before each call. Its error is the reason why the
	// database is unavailable though it responds.
	Ready func() error
}

// Fault is the class of an error of a driver.
type Fault int

// Faults.
const (
	// Other is not retried.
	Other Fault = iota
	// Conflict with another transaction: a retry may succeed.
	Conflict
	// Busy: another process holds the lock for now.
	Busy
	// Lost is a broken connection: another one may work.
	Lost
	// Unavailable: an immediate retry cannot help.
	Unavailable
	// Full: the disk is full.
	Full
)

// Limits bound the time of a call, in addition to its context. The error is then
// store.ErrUnavailable.
type Limits struct {
	// Short is for everything but Changes and Replace, which take Long.
	Short, Long time.Duration
}

// DefaultLimits suit a database in the same network.
func DefaultLimits() Limits { return Limits{Short: 15 * time.Second, Long: 5 * time.Minute} }

// Store implements store.Store. Its parts are small types over one database.
type Store struct {
	*database
	sources
	leases
	syncs
	versionReader
	versionWriter
	replacer
	secrets
}

var _ store.Store = (*Store)(nil)

// New makes a Store over a migrated database. reader and writer may be the same;
// the Store closes them.
func New(reader, writer *sql.DB, dialect Dialect, limits Limits) *Store {
	db := &database{reader: reader, writer: writer, dialect: dialect, limits: limits}
	s := &Store{database: db, sources: sources{db}, leases: leases{db}, secrets: secrets{db}}
	s.syncs = syncs{db, s.leases}
	s.versionReader = versionReader{db, s.sources}
	s.versionWriter = versionWriter{db, s.sources}
	s.replacer = replacer{db: db, versions: s.versionWriter, leases: s.leases, syncs: s.syncs}
	return s
}
