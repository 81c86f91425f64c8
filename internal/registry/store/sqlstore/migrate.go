package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// migrationTable is where goose keeps which migrations have been applied; a name
// of our own, for a database that is shared with other programs.
const migrationTable = "registry_migration"

// Migrate brings the database to the version of this program: it applies
// the migrations that are missing, forward only. A database that is further
// already is left alone: store.ErrNewer.
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
	// A later program may have come first while this one waited for its turn.
	return notNewer(ctx, provider)
}

func notNewer(ctx context.Context, provider *goose.Provider) error {
	have, know, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the version of the database: %w", err)
	}
	if have > know {
		return fmt.Errorf("%w: it is at version %d, and this program knows versions up to %d", store.ErrNewer, have, know)
	}
	return nil
}
