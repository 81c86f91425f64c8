package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"strings"
	"sync/atomic"
)

// database is what the parts of a Store share.
type database struct {
	reader, writer *sql.DB
	dialect        Dialect
	limits         Limits
	full           atomic.Bool // the last write that needed room found none
}

// Ping implements store.Store.
func (d *database) Ping(ctx context.Context) error {
	if d.full.Load() {
		if err := d.probe(ctx); err != nil {
			return err
		}
		d.full.Store(false)
	}
	return d.do(ctx, "ping the database", d.limits.Short, func(ctx context.Context) error {
		var one int
		return d.reader.QueryRowContext(ctx, "SELECT 1").Scan(&one)
	})
}

// probe writes and deletes what a document of usual size needs.
func (d *database) probe(ctx context.Context) error {
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
		if err := d.write(ctx, "write to the database", d.limits.Short, step); err != nil {
			return err
		}
	}
	return nil
}

// Close implements store.Store.
func (d *database) Close() error {
	err := d.reader.Close()
	if d.writer != d.reader {
		if werr := d.writer.Close(); err == nil {
			err = werr
		}
	}
	return err
}

// tuples is n times a list of width placeholders: (?, ?), (?, ?).
func (d *database) tuples(n, width int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		for j := range width {
			if j == 0 {
				b.WriteString("(")
			} else {
				b.WriteString(", ")
			}
			b.WriteString(d.dialect.Placeholder(i*width + j + 1))
		}
		b.WriteString(")")
	}
	return b.String()
}
