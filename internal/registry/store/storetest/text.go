package storetest

import (
	"crypto/sha256"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

func textTests() map[string]func(*testing.T, store.Store, store.Store) {
	return map[string]func(*testing.T, store.Store, store.Store){
		"a document comes back byte for byte":       testExactDocuments,
		"text is kept exactly and keys are exact":   testOddText,
		"what is not text is refused by all stores": testNotText,
		"times are kept from the first to the last": testTimes,
	}
}

func testExactDocuments(t *testing.T, first, second store.Store) {
	random := make([]byte, 3<<20) // it cannot be compressed
	source := rand.NewChaCha8(sha256.Sum256([]byte("documents")))
	_, _ = source.Read(random)
	everyByte := make([]byte, 256)
	for i := range everyByte {
		everyByte[i] = byte(i)
	}
	documents := []string{
		"{}", " \t{\r\n \"a\" : 1.0 , \"a\":1e0 }\n\n", `{"a":"\u0000\ud800"}`, `{"z":1,"a":2}`,
		`{"big": 123456789012345678901234567890.10}`, "\ufeff{}", `{"ü":"日本語 😀 \u00fc"}`,
		`{"sql":"'; DROP TABLE version; --", "p":"$1 ? %s"}`,
		string(everyByte), string(random), "{" + strings.Repeat(" ", 1<<20) + "}",
	}
	for i, document := range documents {
		v := makeVersion("a", strings.Repeat("x", i+1))
		v.Document = json.RawMessage(document)
		got := insert(t, first, v)
		if string(got.Document) != document {
			t.Errorf("document %d is returned as %.100q", i, got.Document)
		}
		read, err := second.Documents(t.Context(), []int64{got.ID})
		if err != nil {
			t.Fatal(err)
		}
		if string(read[got.ID]) != document {
			t.Errorf("document %d is read as %.100q", i, read[got.ID])
		}
	}
}

func testOddText(t *testing.T, first, second store.Store) {
	texts := []string{
		"a", "A", " a", "a ", "a\n", "ä", "a\u0308", "😀", "'", `"`, `\`, "%", "_", "$1", "?", "\u00a0", "\u202e", "\ufffd",
		"\x01\x1f\x7f", "İ", "ß", "1", "1.0", "1e0", "0x1", "NULL", strings.Repeat("é", 400),
	}
	want := map[string]store.Version{}
	for _, text := range texts {
		v := makeVersion(text, text)
		v.Source, v.Search, v.StatusMessage = "odd "+strings.Repeat("s", 700), text, text
		v = insert(t, first, v)
		want[text+" "+text] = v
	}
	same(t, "odd texts", want, all(t, second, "odd "+strings.Repeat("s", 700)))
	for _, text := range texts {
		if _, err := second.Insert(t.Context(), want[text+" "+text]); err == nil {
			t.Errorf("%q is added twice", text)
		}
		got, err := second.Update(t.Context(), "odd "+strings.Repeat("s", 700), text, text, func(v *store.Version) error {
			v.Status = "deleted"
			return nil
		})
		if err != nil || got.ID != want[text+" "+text].ID {
			t.Errorf("%q is found as %+v, %v", text, got.Head, err)
		}
	}
}

func testNotText(t *testing.T, first, _ store.Store) {
	for what, spoil := range map[string]func(*store.Version){
		"NUL in the name":           func(v *store.Version) { v.Name = "a\x00b" },
		"NUL in the version":        func(v *store.Version) { v.Version = "\x00" },
		"NUL in the status message": func(v *store.Version) { v.StatusMessage = "a\x00" },
		"NUL in the search text":    func(v *store.Version) { v.Search = "\x00a" },
		"NUL in the status":         func(v *store.Version) { v.Status = "\x00" },
		"NUL in the source":         func(v *store.Version) { v.Source = "\x00" },
		"a name that is not UTF-8":  func(v *store.Version) { v.Name = "\xff" },
		"a message cut in a rune":   func(v *store.Version) { v.StatusMessage = "é"[:1] },
		"a surrogate":               func(v *store.Version) { v.Search = "\xed\xa0\x80" },
		"no name":                   func(v *store.Version) { v.Name = "" },
		"no version":                func(v *store.Version) { v.Version = "" },
		"no source":                 func(v *store.Version) { v.Source = "" },
		"a name that is too long":   func(v *store.Version) { v.Name = strings.Repeat("n", 3000) },
	} {
		v := makeVersion("a", "1")
		spoil(&v)
		if got, err := first.Insert(t.Context(), v); err == nil {
			t.Errorf("%s is accepted as %+v", what, got.Head)
		}
	}
	for _, bad := range []string{"", "\x00", "\xff", strings.Repeat("s", 3000)} {
		if _, err := first.Revisions(t.Context(), []string{bad}); err == nil {
			t.Errorf("a source is made with the name %.10q", bad)
		}
		if _, err := first.Changes(t.Context(), bad, 0, func(store.Head) error { return nil }); err == nil {
			t.Errorf("a source is read with the name %.10q", bad)
		}
		if _, err := first.Acquire(t.Context(), bad, owner, time.Minute); err == nil {
			t.Errorf("a lease is given on %.10q", bad)
		}
		if _, err := first.Secret(t.Context(), bad, func() ([]byte, error) { return []byte("s"), nil }); err == nil {
			t.Errorf("a secret is kept as %.10q", bad)
		}
		if err := first.Release(t.Context(), bad, owner); err != nil {
			t.Errorf("release of what was never held: %v", err)
		}
	}
}

func testTimes(t *testing.T, first, second store.Store) {
	for i, at := range []time.Time{
		time.Unix(0, 0).UTC(), time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC), noon(),
	} {
		v := makeVersion("a", strings.Repeat("1", i+1))
		v.PublishedAt, v.StatusChangedAt = at, at
		v = insert(t, first, v)
		got := all(t, second, source)["a "+v.Version]
		same(t, "times of "+at.String(), v, got)
		if !got.PublishedAt.Equal(at) || !got.StatusChangedAt.Equal(at) {
			t.Errorf("%s is kept as %s", at, got.PublishedAt)
		}
	}
}
