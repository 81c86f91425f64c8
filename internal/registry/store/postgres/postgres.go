// Package postgres keeps a registry in a PostgreSQL database, which any number
// of servers may share.
//
// A broken connection is replaced, and its call is retried if it cannot have taken
// effect. While no connection can be made, every call fails at once with
// store.ErrUnavailable. Calls succeed again when the database is back, without a
// restart.
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/registry/store"
	"github.com/toolhaven/toolhaven/internal/registry/store/sqlstore"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Options name a database.
type Options struct {
	// URL is a postgres:// URL or key=value words, as libpq takes them; the PG*
	// environment variables fill in what it leaves out.
	URL string
	// PasswordFile, if not "", holds the password and wins over all others. It is
	// read for each connection, so a password may be changed at any time.
	PasswordFile string
	// MaxConnections at once; 0 is 10.
	MaxConnections int
}

// Store is a store.Store in a PostgreSQL database.
type Store struct{ *sqlstore.Store }

var _ store.Store = (*Store)(nil)

const (
	defaultConnections = 10
	// startWait is how long Open waits for a database that cannot be reached, unless
	// its context ends earlier.
	startWait = 30 * time.Second
	// Connections are replaced after this time, so that a changed password, DNS entry
	// or primary server takes effect.
	maxLifetime, maxIdle = 30 * time.Minute, 5 * time.Minute
	// migrationLock is the advisory lock under which one of several servers that
	// start at the same moment migrates: "thvregis".
	migrationLock = 0x7468767265676973
)

// Open opens the database and migrates it. It waits up to 30 s for a database that
// cannot be reached, and then fails with store.ErrUnavailable. A permanent fault, such
// as a wrong password or a database that does not exist, fails at once, with
// ErrUnavailable too.
func Open(ctx context.Context, options Options) (*Store, error) {
	config, err := parse(options)
	if err != nil {
		return nil, err
	}
	where := fmt.Sprintf("the PostgreSQL database %s at %s", config.Database, address(config))
	db := connect(config, options)
	if err := await(ctx, db); err != nil {
		db.Close()
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return &Store{sqlstore.New(db, db, dialect(), sqlstore.DefaultLimits())}, nil
}

func connect(config *pgx.ConnConfig, options Options) *sql.DB {
	db := stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(func(_ context.Context, c *pgx.ConnConfig) error {
		return setPassword(c, options.PasswordFile)
	}))
	n := options.MaxConnections
	if n == 0 {
		n = defaultConnections
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	db.SetConnMaxLifetime(maxLifetime)
	db.SetConnMaxIdleTime(maxIdle)
	return db
}

// await migrates the database as soon as it can be reached.
func await(ctx context.Context, db *sql.DB) error {
	bounded, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	began := time.Now()
	var cause error
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := migrate(bounded, db)
		switch {
		case err == nil:
			return nil
		case errors.Is(ctx.Err(), context.Canceled):
			return ctx.Err()
		case cause == nil || bounded.Err() == nil:
			cause = err
		}
		if bounded.Err() == nil && permanent(err) {
			return fmt.Errorf("%w: %s", store.ErrUnavailable, plaintext.Line(err.Error()))
		}
		if bounded.Err() == nil && fault(err) == sqlstore.Other {
			return err
		}
		select {
		case <-time.After(pause):
		case <-bounded.Done():
			return fmt.Errorf("%w, for %s: %s", store.ErrUnavailable, time.Since(began).Round(time.Second), plaintext.Line(cause.Error()))
		}
	}
}

func migrate(ctx context.Context, db *sql.DB) error {
	var encoding string
	if err := db.QueryRowContext(ctx, "SHOW server_encoding").Scan(&encoding); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return fmt.Errorf("its encoding is %s; it must be made with ENCODING 'UTF8'", encoding)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	// The lock is tried each second while another server migrates.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock), lock.WithLockTimeout(1, 60), lock.WithUnlockTimeout(1, 3))
	if err != nil {
		return err
	}
	return sqlstore.Migrate(ctx, goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
}
