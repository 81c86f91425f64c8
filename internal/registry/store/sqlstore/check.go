package sqlstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// maxKey bounds source, name and version each, in bytes: together they are a key
// of an index, which holds 2,704 bytes in PostgreSQL.
const maxKey = 800

// checkText refuses what a text column cannot hold in PostgreSQL.
func checkText(what, text string) error {
	if strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
		return fmt.Errorf("the %s is not UTF-8 text without NUL: %.80q", what, text)
	}
	return nil
}

func checkKey(what, text string) error {
	if text == "" || len(text) > maxKey {
		return fmt.Errorf("the %s has %d bytes, which is not between 1 and %d: %.80q", what, len(text), maxKey, text)
	}
	return checkText(what, text)
}

// storable reports whether texts can be keys. Others are never stored.
func storable(keys ...string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return checkKey("key", key) != nil })
}

func check(v *store.Version) error {
	for _, key := range []struct{ what, text string }{{"source", v.Source}, {"name", v.Name}, {"version", v.Version}} {
		if err := checkKey(key.what, key.text); err != nil {
			return err
		}
	}
	for _, field := range []struct{ what, text string }{
		{"status", v.Status}, {"status message", v.StatusMessage}, {"search text", v.Search},
	} {
		if err := checkText(field.what, field.text); err != nil {
			return fmt.Errorf("server %s, version %s: %w", v.Name, v.Version, err)
		}
	}
	if len(v.Document) == 0 {
		return fmt.Errorf("server %s, version %s has no document", v.Name, v.Version)
	}
	return nil
}

func checkSources(sources []string) error {
	for _, source := range sources {
		if err := checkKey("source", source); err != nil {
			return err
		}
	}
	return nil
}

func checkSync(state *store.Sync) error {
	return errors.Join(checkKey("source", state.Source), checkText("phase", state.Phase), checkText("digest", state.Digest))
}

// clean makes a message storable. Part of it may come from another server.
func clean(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}

// micros is the stored form of a time. The zero time is read back as the zero time.
func micros(t time.Time) int64 { return t.UnixMicro() }

func fromMicros(n int64) time.Time { return time.UnixMicro(n).UTC() }
