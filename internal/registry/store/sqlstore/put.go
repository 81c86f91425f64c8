package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
)

// Bounds on a statement: its rows, and about its bytes.
const (
	maxRows  = 400
	maxBytes = 4 << 20
)

// versionColumns are the columns that putHeads writes.
const versionColumns = "source_id, name, version, status, status_message, published_at, updated_at, status_changed_at, search, digest, revision"

const upsertVersions = `
ON CONFLICT (source_id, name, version) DO UPDATE SET
	status = excluded.status, status_message = excluded.status_message,
	published_at = excluded.published_at, updated_at = excluded.updated_at,
	status_changed_at = excluded.status_changed_at, search = excluded.search,
	digest = excluded.digest, revision = excluded.revision
RETURNING id, name, version`

// put writes the rows with the source's next revision; a stored version is
// overwritten. It sets their IDs; advance sets their times.
func (w versionWriter) put(ctx context.Context, tx *sql.Tx, source sourceRow, rows []row) error {
	for len(rows) > 0 {
		n, size := 0, 0
		for n < len(rows) && n < maxRows && size < maxBytes {
			size += len(rows[n].Document) + len(rows[n].Search)
			n++
		}
		if err := w.putHeads(ctx, tx, source, rows[:n]); err != nil {
			return err
		}
		if err := w.putDocuments(ctx, tx, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func (w versionWriter) putHeads(ctx context.Context, tx *sql.Tx, source sourceRow, rows []row) error {
	const width = 11
	args := make([]any, 0, len(rows)*width)
	at := make(map[[2]string]*row, len(rows))
	for i := range rows {
		r := &rows[i]
		at[r.key()] = r
		args = append(args, source.id, r.Name, r.Version.Version, r.Status, r.StatusMessage,
			micros(r.PublishedAt), micros(r.UpdatedAt), micros(r.StatusChangedAt), r.Search, r.digest, source.Number+1)
	}
	query := "INSERT INTO version (" + versionColumns + ") VALUES " + w.db.tuples(len(rows), width) + upsertVersions
	return each(ctx, tx, query, args, func(scan scanner) error {
		var id int64
		var key [2]string
		if err := scan(&id, &key[0], &key[1]); err != nil {
			return err
		}
		r := at[key]
		if r == nil {
			return fmt.Errorf("the database returned a version of %q that was not written", key[0])
		}
		r.ID = id
		return nil
	})
}

func (w versionWriter) putDocuments(ctx context.Context, tx *sql.Tx, rows []row) error {
	args := make([]any, 0, 2*len(rows))
	for i := range rows {
		if rows[i].withDocument {
			args = append(args, rows[i].ID, []byte(rows[i].Document))
		}
	}
	if len(args) == 0 {
		return nil
	}
	query := "INSERT INTO document (version_id, body) VALUES " + w.db.tuples(len(args)/2, 2) +
		" ON CONFLICT (version_id) DO UPDATE SET body = excluded.body"
	_, err := tx.ExecContext(ctx, query, args...)
	return err
}
