package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// migrationTable holds the applied migrations. Its name differs from goose's default,
// since a database may be shared with other programs.
const migrationTable = "registry_migration"

// Migrate brings the database to the version of this program: it applies
// the missing migrations, forward only. A newer database is not changed: the error is
// store.ErrNewer.
func Migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, migrations fs.FS, options ...goose.ProviderOption) error {
	options = append(options, goose.WithTableName(migrationTable), goose.WithDisableGlobalRegistry(true))
	provider, err := goose.NewProvider(dialect, db, migrations, options...)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	if err := notNewer(ctx, provider); err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	// A newer program may have migrated it while this one waited for the lock.
	return notNewer(ctx, provider)
}

func notNewer(ctx context.Context, provider *goose.Provider) error {
	have, newest, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the version of the database: %w", err)
	}
	if have > newest {
		return fmt.Errorf("%w: it is at version %d, and this program supports versions up to %d", store.ErrNewer, have, newest)
	}
	return nil
}
