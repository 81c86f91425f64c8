package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// Revisions implements store.Store.
func (s *Store) Revisions(ctx context.Context, sources []string) ([]store.Revision, error) {
	const what = "read the revisions of the sources"
	if err := checkSources(sources); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	known := make(map[string]store.Revision, len(sources))
	readAll := func(ctx context.Context) error {
		// All of them: those configured, and a few that once were. One statement
		// sees one moment.
		return each(ctx, s.reader, "SELECT "+sourceColumns+" FROM source", nil, func(scan scanner) error {
			r, err := scanSource(scan)
			known[r.Source] = r.Revision
			return err
		})
	}
	if err := s.do(ctx, what, s.limits.Short, readAll); err != nil {
		return nil, err
	}
	var missing []string
	for _, source := range sources {
		if _, ok := known[source]; !ok {
			missing = append(missing, source)
		}
	}
	slices.Sort(missing) // two that make them do not wait for each other
	if len(missing) > 0 {
		err := s.write(ctx, what, s.limits.Short, func(ctx context.Context, tx *sql.Tx) error {
			for _, source := range missing {
				if _, err := s.lockSource(ctx, tx, source); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = s.do(ctx, what, s.limits.Short, readAll) // again, for all to be of one moment
		}
		if err != nil {
			return nil, err
		}
	}
	out := make([]store.Revision, len(sources))
	for i, source := range sources {
		out[i] = known[source]
	}
	return out, nil
}

const headColumns = "id, name, version, status, status_message, published_at, updated_at, status_changed_at, search"

// scanHead reads headColumns, and more after them.
func scanHead(scan scanner, h *store.Head, more ...any) error {
	var published, updated, changed int64
	dest := []any{&h.ID, &h.Name, &h.Version, &h.Status, &h.StatusMessage, &published, &updated, &changed, &h.Search}
	if err := scan(append(dest, more...)...); err != nil {
		return err
	}
	h.PublishedAt, h.UpdatedAt, h.StatusChangedAt = fromMicros(published), fromMicros(updated), fromMicros(changed)
	return nil
}

// Changes implements store.Store.
func (s *Store) Changes(ctx context.Context, source string, since int64, each func(store.Head) error) (store.Revision, error) {
	if err := checkKey("source", source); err != nil {
		return store.Revision{}, fmt.Errorf("read the changes of a source: %w", err)
	}
	what := "read the changes of source " + source
	for range 2 {
		revision, err := s.changes(ctx, what, source, since, each)
		if !errors.Is(err, sql.ErrNoRows) {
			return revision, err
		}
		// Make the source, and look again: it may have changes by now.
		if _, err := s.Revisions(ctx, []string{source}); err != nil {
			return store.Revision{}, err
		}
	}
	return store.Revision{}, fmt.Errorf("%s: it vanishes as soon as it is made", what)
}

// changes fails with sql.ErrNoRows when there is no such source.
func (s *Store) changes(ctx context.Context, what, source string, since int64, each func(store.Head) error) (store.Revision, error) {
	revision := store.Revision{Source: source}
	given := false
	err := s.do(ctx, what, s.limits.Long, func(ctx context.Context) error {
		err := s.read(ctx, func(tx *sql.Tx) error {
			from, err := sourceOf(ctx, tx, source, "")
			revision = from.Revision
			if err != nil || since >= revision.Number {
				return err
			}
			return s.heads(ctx, tx, from.id, since, func(h store.Head) error {
				h.Source, given = source, true
				return each(h)
			})
		})
		if given && err != nil && !errors.As(err, new(callerError)) && s.dialect.Fault(err) != Other {
			// What was given cannot be taken back, and must not be given twice.
			return cutShort{err}
		}
		return err
	})
	var cut cutShort
	if errors.As(err, &cut) {
		return store.Revision{}, unavailable(what, cut.error)
	}
	if err != nil {
		return store.Revision{}, err
	}
	return revision, nil
}

// cutShort is a fault in the middle of an answer. It hides its cause, so that it
// is not tried again.
type cutShort struct{ error }

func (s *Store) heads(ctx context.Context, tx *sql.Tx, id, since int64, give func(store.Head) error) error {
	query := "SELECT " + headColumns + " FROM version WHERE source_id = $1 AND revision > $2"
	return each(ctx, tx, query, []any{id, since}, func(scan scanner) error {
		var h store.Head
		if err := scanHead(scan, &h); err != nil {
			return err
		}
		if err := give(h); err != nil {
			return callerError{err}
		}
		return nil
	})
}

// maxIDs is how many documents one statement reads.
const maxIDs = 512

// Documents implements store.Store.
func (s *Store) Documents(ctx context.Context, ids []int64) (map[int64]json.RawMessage, error) {
	out := make(map[int64]json.RawMessage, len(ids))
	for len(ids) > 0 {
		some := ids[:min(len(ids), maxIDs)]
		ids = ids[len(some):]
		// A power of two in length, the last one repeated, so that there are few
		// statements to prepare.
		args := make([]any, 1<<bits.Len(uint(len(some)-1)))
		for i := range args {
			args[i] = some[min(i, len(some)-1)]
		}
		query := "SELECT version_id, body FROM document WHERE version_id IN " + s.tuples(1, len(args))
		err := s.do(ctx, "read documents", s.limits.Short, func(ctx context.Context) error {
			return each(ctx, s.reader, query, args, func(scan scanner) error {
				var id int64
				var body []byte
				if err := scan(&id, &body); err != nil {
					return err
				}
				out[id] = body
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// scanner is [sql.Rows.Scan].
type scanner func(dest ...any) error

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// each calls f for each row of the answer.
func each(ctx context.Context, q querier, query string, args []any, f func(scanner) error) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// tuples is n times a list of width placeholders: (?, ?), (?, ?).
func (s *Store) tuples(n, width int) string {
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
			b.WriteString(s.dialect.Placeholder(i*width + j + 1))
		}
		b.WriteString(")")
	}
	return b.String()
}
