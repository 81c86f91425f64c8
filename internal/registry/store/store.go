// Package store is the registry server's interface to a database. Two packages
// implement it, sqlite and postgres; one suite, storetest, tests both.
//
// It holds versions of servers, each in the source that it comes from; the entries
// of a managed registry are a source too. A source has a revision, which grows with
// every change, and a version has the revision that last changed it. A reader that
// has a revision reads the later changes with [Store.Changes]: package catalog updates
// its index this way in each process that shares the database.
//
// The store sets the time of a change. It is later than the times of all earlier
// changes, of all sources and processes, and changes become visible in the order of
// their times.
//
// Versions are never removed: deleted versions, and versions that a source no longer
// lists, stay with the status deleted, so that copies of the registry can follow.
//
// Texts are UTF-8 without NUL; source, name and version have 1 to 800 bytes. Other
// texts are refused. Documents are stored byte for byte.
//
// The rules of the registry are not here: which version is the latest, which source
// shows a name, what a document may contain.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Errors that callers distinguish.
var (
	ErrExists   = errors.New("the version exists")
	ErrNotFound = errors.New("there is no such version")
	// ErrLeaseLost: another process synchronizes the source now.
	ErrLeaseLost = errors.New("the lease on the source is lost")
	// ErrUnavailable: the database cannot be used now. Nothing was changed, unless
	// the response to a commit was lost; then the change may have been made.
	ErrUnavailable = errors.New("the database cannot be reached")
	// ErrFull, an ErrUnavailable: the disk of the database is full. Nothing was
	// changed.
	ErrFull = fmt.Errorf("%w: its disk is full", ErrUnavailable)
	// ErrNewer: a later version of this program has migrated the database.
	ErrNewer = errors.New("the database belongs to a later version of this program")
)

// Head is a version of a server without its document. Times are UTC in whole
// microseconds.
type Head struct {
	// ID is assigned by the store, above 0 and never reused.
	ID      int64
	Source  string
	Name    string
	Version string
	// Status is active, deprecated or deleted (registry API v0.1).
	Status        string
	StatusMessage string
	// UpdatedAt is the time of the last change. The store sets it and ignores the
	// caller's value.
	UpdatedAt time.Time
	// PublishedAt and StatusChangedAt are set by the caller. Zero values become the
	// time of the change when written.
	PublishedAt     time.Time
	StatusChangedAt time.Time
	// Search is the text that a search matches (registry.SearchText).
	Search string
}

// Version is one version of one server.
type Version struct {
	Head
	// Document is its server.json as it was published.
	Document json.RawMessage
}

// Revision is a state of a source.
type Revision struct {
	Source string
	// Epoch is a random word created with the source. Revisions of different epochs
	// cannot be compared.
	Epoch string
	// Number is 0 for a source without changes.
	Number int64
	// At is the time of its last change; zero when there was none.
	At time.Time
}

// Sync is the state of synchronization of a source.
type Sync struct {
	Source string
	// Phase is "" (never tried), syncing, complete or failed.
	Phase string
	// LastAttempt and LastSuccess are zero when there was none.
	LastAttempt, LastSuccess time.Time
	// Failures counts the attempts that failed since the last success.
	Failures int
	// Error is why the last attempt failed; "" after a success.
	Error string
	// Servers and Versions were listed by the last success, after the filter.
	Servers, Versions int
	// Malformed counts the entries of the last success that could not be used,
	// and Others those that were not servers (skills, plugins).
	Malformed, Others int
	// LeftOut has the reasons of the first of the malformed entries.
	LeftOut string
	// Digest identifies the content and the filter of the last success, so that the
	// same content is not applied again. The store does not interpret it.
	Digest string
}

// Outcome is the result for one version of [Store.Add].
type Outcome int

// Outcomes of [Store.Add].
const (
	Added Outcome = iota
	// Same: it existed with the same document.
	Same
	// Differs: it exists with another document, which was kept.
	Differs
	// Replaced: it existed with another document, which was replaced.
	Replaced
)

// Stats counts the versions that a [Store.Replace] changed.
type Stats struct{ Added, Changed, Deleted, Unchanged int }

// Store keeps versions. Its methods may be called concurrently, by several processes on
// one database. A change is atomic. When a context ends, the call returns its error. A
// function passed to a method must not call the store.
type Store interface {
	// Revisions returns the revision of each source, in the order given, in one
	// snapshot: every change up to the latest At of the result is in these
	// revisions. A source that does not exist is created.
	Revisions(ctx context.Context, sources []string) ([]Revision, error)

	// Changes calls each for every version of the source whose last change is
	// later than since, in no order, in one snapshot of the database, and returns
	// the revision of that snapshot. An error of each ends it and is returned.
	Changes(ctx context.Context, source string, since int64, each func(Head) error) (Revision, error)

	// Documents returns the documents of versions by ID. IDs that do not exist are
	// not in the result.
	Documents(ctx context.Context, ids []int64) (map[int64]json.RawMessage, error)

	// Insert adds a version, or fails with ErrExists, also if it exists with the
	// status deleted. The store assigns the ID.
	Insert(ctx context.Context, v Version) (Version, error)

	// Add adds versions to a source, all or none, and returns the outcome of each. A
	// version that exists, deleted or not, is kept, unless replace is set and its
	// document differs: then its document and search text are replaced, and nothing
	// else. A version that is given twice is an error.
	Add(ctx context.Context, source string, versions []Version, replace bool) ([]Outcome, error)

	// Update calls change with the stored version, and again after a conflict.
	// change may set its document, status, times and search text; its error is
	// returned unchanged and nothing is written. The error is ErrNotFound when there
	// is no such version. A version that is not altered gets no new revision.
	Update(ctx context.Context, source, name, version string, change func(*Version) error) (Version, error)

	// UpdateAll is Update for every version of a server, all or none, in no order.
	UpdateAll(ctx context.Context, source, name string, change func(*Version) error) ([]Version, error)

	// Replace replaces the versions of a source. A version with the same document,
	// status, message and search text is not changed and keeps its times. A changed
	// version gets the times given: a zero PublishedAt keeps the stored one, and so
	// does a zero StatusChangedAt if the status is the same. A version that is not
	// listed becomes deleted, without a message. The state is stored in the same
	// transaction. owner must hold the lease, else the error is ErrLeaseLost. A
	// version that is listed twice is an error.
	Replace(ctx context.Context, source, owner string, versions []Version, state Sync) (Stats, error)

	// Acquire takes or prolongs the lease on the synchronization of a source for the
	// owner. It returns false when another owner holds it. The clock is the
	// database's.
	Acquire(ctx context.Context, source, owner string, lasts time.Duration) (bool, error)
	// Release releases a lease. A lease that is not held is no error.
	Release(ctx context.Context, source, owner string) error

	// Syncs returns the state of synchronization of each source, in the order given.
	Syncs(ctx context.Context, sources []string) ([]Sync, error)
	// SetSync stores it. owner must hold the lease, else the error is ErrLeaseLost.
	SetSync(ctx context.Context, owner string, state Sync) error

	// Secret returns the value of a name, which create makes if there is none. All
	// processes on one database receive the same value.
	Secret(ctx context.Context, name string, create func() ([]byte, error)) ([]byte, error)

	// Ping checks that the database responds, and after ErrFull that it can be
	// written to again.
	Ping(ctx context.Context) error
	Close() error
}
