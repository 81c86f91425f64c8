// Package sqlite keeps a registry in one SQLite file. Several processes on one machine
// may share the file, not over a network file system.
//
// The file is in WAL mode with synchronous=FULL: readers and the writer do not wait for
// each other, and acknowledged changes survive a power failure. One connection writes,
// a few read.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"
	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/toolhaven/toolhaven/internal/registry/store"
	"github.com/toolhaven/toolhaven/internal/registry/store/sqlstore"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Store is a store.Store in an SQLite file.
type Store struct{ *sqlstore.Store }

var _ store.Store = (*Store)(nil)

// Open opens the file. It creates the file, readable only by this user, and its
// directory if they do not exist.
func Open(ctx context.Context, path string) (*Store, error) {
	s, err := open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("open the database %s: %w", path, err)
	}
	return s, nil
}

func open(ctx context.Context, path string) (_ *Store, err error) {
	path, err = prepare(path)
	if err != nil {
		return nil, err
	}
	writer, err := connect(path, "immediate", 1)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			writer.Close()
		}
	}()
	if err := migrate(ctx, path, writer); err != nil {
		return nil, err
	}
	reader, err := connect(path, "deferred", max(4, runtime.NumCPU()), "query_only(1)")
	if err != nil {
		return nil, err
	}
	d := dialect()
	if d.Ready, err = sameFile(path); err != nil {
		reader.Close()
		return nil, err
	}
	return &Store{sqlstore.New(reader, writer, d, sqlstore.DefaultLimits())}, nil
}

// prepare creates the file and sets its mode, which SQLite copies to its other
// files.
func prepare(path string) (string, error) {
	if path == "" || strings.IndexByte(path, 0) >= 0 {
		return "", errors.New("that is not the path of a file")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("that is not a file")
	}
	// It holds secrets.
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		if err := f.Chmod(0o600); err != nil {
			return "", fmt.Errorf("it can be read by others, and that cannot be changed: %w", err)
		}
	}
	return path, nil
}

// sameFile returns a function that fails once the file at path is not the present one.
// SQLite continues with a file that was deleted or replaced: writes to it would be
// acknowledged and lost when the process ends.
func sameFile(path string) (func() error, error) {
	opened, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return func() error {
		now, err := os.Stat(path)
		switch {
		case err != nil:
			return fmt.Errorf("the file of the database is gone; put it back, or start anew: %w", err)
		case !os.SameFile(opened, now):
			return fmt.Errorf("%s is another file than the one that was opened; start anew to use it", path)
		}
		return nil
	}, nil
}

// lockWait is how long SQLite waits for another process before it returns SQLITE_BUSY.
// SQLite does not observe contexts; sqlstore does, and retries.
const lockWait = 200 * time.Millisecond

// busyWait bounds how long Open waits for other processes that write.
const busyWait = 30 * time.Second

// connect makes a pool of up to n connections, whose transactions begin that way.
func connect(path, begin string, n int, pragmas ...string) (*sql.DB, error) {
	query := url.Values{"_txlock": {begin}, "_pragma": append([]string{
		fmt.Sprintf("busy_timeout(%d)", lockWait.Milliseconds()),
		"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
		"cache_size(-16000)",           // KiB
		"journal_size_limit(67108864)", // after a large Replace
	}, pragmas...)}
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // C:/dir
	}
	uri := url.URL{Scheme: "file", Path: slashed, RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", uri.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// migrate migrates the file. A lock file keeps two processes that start at the same
// time from migrating both.
func migrate(ctx context.Context, path string, db *sql.DB) error {
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return fmt.Errorf("wait for another process that migrates it: %w", err)
	}
	defer func() { _ = lock.Close() }()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(busyWait); ; {
		err := sqlstore.Migrate(ctx, goose.DialectSQLite3, db, files)
		// A process that has the file open may be writing.
		if err == nil || fault(err) != sqlstore.Busy || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
	}
}

func dialect() sqlstore.Dialect {
	return sqlstore.Dialect{
		// Named placeholders are looked up one by one, which is slow in long statements.
		Placeholder: func(int) string { return "?" },
		Now:         "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
		Greatest:    "max",
		Fault:       fault,
	}
}

func fault(err error) sqlstore.Fault {
	var e *driver.Error
	if !errors.As(err, &e) {
		return sqlstore.Other
	}
	switch e.Code() & 0xff { // without the extension
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		return sqlstore.Busy
	case lib.SQLITE_FULL:
		return sqlstore.Full
	case lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN, lib.SQLITE_READONLY, lib.SQLITE_NOMEM:
		return sqlstore.Unavailable
	}
	return sqlstore.Other
}
