// Package store is the registry server's interface to a database. Two packages
// implement it, sqlite and postgres; one suite, storetest, tests both.
//
// The unit is a version of a server, kept under the source that it comes from: a
// managed registry's own entries are a source like any other. A source has a
// revision, which grows with every change; each version remembers the revision
// that changed it last. So a reader that remembers a revision learns what is new
// by asking for [Store.Changes] since then, which is how package catalog keeps
// its index, in this process and in every other that shares the database.
//
// A change has a time as well, which the store gives it: later than that of every
// change before it, of whatever source and by whichever process, and given so
// that no reader sees a change before all those of earlier times.
//
// Nothing is ever taken out: what a publisher deletes, and what a source no
// longer lists, stays with the status deleted, so that those who copy the
// registry learn of it.
//
// Texts are UTF-8 without NUL, source, name and version of 1 to 800 bytes; what
// else is given is refused. Documents are bytes, kept as they are.
//
// A store has no rules of the registry: which version is the latest, which source
// shows a name, what a document may contain.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Errors that callers decide on.
var (
	ErrExists   = errors.New("the version exists")
	ErrNotFound = errors.New("there is no such version")
	// ErrLeaseLost: another process synchronizes the source now.
	ErrLeaseLost = errors.New("the lease on the source is lost")
	// ErrUnavailable: the database cannot be used now; nothing was changed, or,
	// when the response to a commit was lost, it is not known whether.
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
	// ID is the store's own, above 0 and never used again.
	ID      int64
	Source  string
	Name    string
	Version string
	// Status is active, deprecated or deleted (registry API v0.1).
	Status        string
	StatusMessage string
	// UpdatedAt is the time of the change that this is from. The store gives it:
	// what a caller puts there counts for nothing.
	UpdatedAt time.Time
	// StatusChangedAt and PublishedAt are the caller's; where they are zero in
	// what is written, they become the time of the change.
	PublishedAt     time.Time
	StatusChangedAt time.Time
	// Search is the text that a search looks at (registry.SearchText).
	Search string
}

// Version is one version of one server.
type Version struct {
	Head
	// Document is its server.json as it was published.
	Document json.RawMessage
}

// Revision is how far a source has come.
type Revision struct {
	Source string
	// Epoch is a random word made with the source: revisions compare only where
	// it is the same.
	Epoch string
	// Number is 0 for a source without any change yet.
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
	// Digest identifies what the last success fetched, and how it was filtered,
	// so that the same need not be applied again. Opaque here.
	Digest string
}

// Outcome is what became of a version that was to be added.
type Outcome int

// Outcomes of [Store.Add].
const (
	Added Outcome = iota
	// Same: it was there, with the same document.
	Same
	// Differs: it was there with another document, and was left as it is.
	Differs
	// Replaced: it was there with another document, and has this one now.
	Replaced
)

// Stats is what a [Store.Replace] changed.
type Stats struct{ Added, Changed, Deleted, Unchanged int }

// Store keeps versions. Its methods may be called concurrently, and from several
// processes on one database. A change is made whole or not at all. A context
// that ends, ends the call with its error. A function given to a method must not
// call the store.
type Store interface {
	// Revisions returns the revision of each source, in the order given, all of one
	// moment: every change up to the latest At of the result is in these
	// revisions. A source not known yet is made.
	Revisions(ctx context.Context, sources []string) ([]Revision, error)

	// Changes calls each for every version of the source whose last change is
	// later than since, in no order, all in one snapshot of the database, and
	// returns the revision of that snapshot. An error of each ends it.
	Changes(ctx context.Context, source string, since int64, each func(Head) error) (Revision, error)

	// Documents returns the documents of versions by their ID; an ID that is not
	// there is not in the answer.
	Documents(ctx context.Context, ids []int64) (map[int64]json.RawMessage, error)

	// Insert adds a version, or fails with ErrExists, also where it is deleted.
	// The ID is the store's to give.
	Insert(ctx context.Context, v Version) (Version, error)

	// Add adds versions to a source, all together or none, and returns the outcome
	// of each. One that is there, deleted or not, stays as it is, unless
	// replace is set and its document is another: then it takes the document and
	// the search text that are given, and nothing else. A version that is given
	// twice is an error.
	Add(ctx context.Context, source string, versions []Version, replace bool) ([]Outcome, error)

	// Update lets change alter a version: its document, status, times and search
	// text. It is called with what is stored, perhaps again after a conflict; its
	// error is returned as it is and nothing changes. ErrNotFound when there is
	// no such version. A change that leaves everything as it was is none.
	Update(ctx context.Context, source, name, version string, change func(*Version) error) (Version, error)

	// UpdateAll is Update for every version of a server, together or not at all,
	// in no order.
	UpdateAll(ctx context.Context, source, name string, change func(*Version) error) ([]Version, error)

	// Replace makes versions what the source lists. A version that is the same
	// (document, status, message, search text) is left alone and keeps its times;
	// one that differs takes the times given; one no longer listed becomes
	// deleted, without a message. owner must hold the lease, else ErrLeaseLost.
	// The state is kept with it. A zero PublishedAt keeps the stored one, a zero
	// StatusChangedAt too while the status is the same. A version that is listed
	// twice is an error.
	Replace(ctx context.Context, source, owner string, versions []Version, state Sync) (Stats, error)

	// Acquire takes, or prolongs, the lease on the synchronization of a source
	// for the owner; false when another holds it. The database's clock counts.
	Acquire(ctx context.Context, source, owner string, lasts time.Duration) (bool, error)
	// Release gives a lease up; one not held is no error.
	Release(ctx context.Context, source, owner string) error

	// Syncs returns the state of synchronization of each source, in the order given.
	Syncs(ctx context.Context, sources []string) ([]Sync, error)
	// SetSync records it. owner must hold the lease, else ErrLeaseLost.
	SetSync(ctx context.Context, owner string, state Sync) error

	// Secret returns the value kept under name, which create makes if there is
	// none; all processes on one database get the same one.
	Secret(ctx context.Context, name string, create func() ([]byte, error)) ([]byte, error)

	// Ping checks that the database answers, and after ErrFull, that it can be
	// written to again.
	Ping(ctx context.Context) error
	Close() error
}
