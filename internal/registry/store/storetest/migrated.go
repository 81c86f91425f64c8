package storetest

import (
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// Clockless tests the migration of a database without the table clock: no version is
// lost, and the clock begins at the latest stored time. open opens the same database
// each time, and exec executes statements in it.
func Clockless(t *testing.T, open func() store.Store, exec func(statement string)) {
	st := open()
	insert(t, st, makeVersion("a", "1"))
	want := all(t, st, source)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	const future = 4102444800000000 // 2100
	for _, statement := range []string{
		"ALTER TABLE sync DROP COLUMN malformed", "ALTER TABLE sync DROP COLUMN others", "ALTER TABLE sync DROP COLUMN left_out",
		"DELETE FROM registry_migration WHERE version_id = 3",
		"DROP TABLE clock", "ALTER TABLE source DROP COLUMN updated_at", "DELETE FROM registry_migration WHERE version_id = 2",
		"INSERT INTO source (name, epoch, revision) VALUES ('empty', 'e', 0)", "UPDATE version SET updated_at = 4102444800000000",
	} {
		exec(statement)
	}
	st = open()
	sameButTime(t, "what is there", want, all(t, st, source))
	if at := revisionOf(t, st, source).At; at.UnixMicro() != future {
		t.Errorf("the source was changed last at %s", at)
	}
	if at := revisionOf(t, st, "empty").At; !at.IsZero() {
		t.Errorf("a source without versions was changed at %s", at)
	}
	if v := insert(t, st, makeVersion("b", "1")); !v.UpdatedAt.Equal(time.UnixMicro(future + 1)) {
		t.Errorf("a version is added at %s", v.UpdatedAt)
	}
}

// Untitled tests that opening a database of an earlier program adds an empty line for
// the title to the search text of versions without a title. open and exec are as in
// Clockless.
func Untitled(t *testing.T, open func() store.Store, exec func(statement string)) {
	st := open()
	titled, untitled, bare := makeVersion("A/t", "1"), makeVersion("A/u", "1"), makeVersion("A/b", "1")
	titled.Document, titled.Search = []byte(`{"title":"T"}`), "a/t\nt\nabout"
	untitled.Search, bare.Search = "a/u\nabout\ntag", "a/b"
	for _, v := range []store.Version{titled, untitled, bare} {
		insert(t, st, v)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"ALTER TABLE sync DROP COLUMN malformed", "ALTER TABLE sync DROP COLUMN others", "ALTER TABLE sync DROP COLUMN left_out",
		"DELETE FROM registry_migration WHERE version_id = 3",
	} {
		exec(statement)
	}
	got := map[string]string{}
	for _, v := range all(t, open(), source) {
		got[v.Name] = v.Search
	}
	same(t, "search texts", map[string]string{"A/t": titled.Search, "A/u": "a/u\n\nabout\ntag", "A/b": "a/b"}, got)
}
