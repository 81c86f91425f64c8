package auditlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func open(t *testing.T, opt Options) *Log {
	t.Helper()
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	l, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// recorded are the numbers in the records of a file; every line must be a record,
// but for those in torn.
func recorded(t *testing.T, path string, torn ...string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(content) > 0 && content[len(content)-1] != '\n' {
		t.Errorf("the file ends within a line: %.200q", content)
	}
	var out []string
	for line := range strings.Lines(string(content)) {
		if len(torn) > 0 && strings.TrimSpace(line) == torn[0] {
			torn = torn[1:]
			continue
		}
		var record struct{ N int }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("a line is not a record: %q", line)
		}
		out = append(out, fmt.Sprint(record.N))
	}
	return strings.Join(out, " ")
}

func TestLog_TwoWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	a, b := open(t, Options{File: path}), open(t, Options{File: path})
	for i, l := range []*Log{a, b, a} {
		if err := l.Begin(); err != nil {
			t.Fatal(err)
		}
		l.Record(slog.Int("n", i))
	}
	if got := recorded(t, path); got != "0 1 2" {
		t.Error(got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestLog_TornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(`{"n":1}`+"\n"+`{"n":2,"se`), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, Options{File: path})
	l.Record(slog.Int("n", 3))
	l.Record(slog.Int("n", 4))
	if got := recorded(t, path, `{"n":2,"se`); got != "1 3 4" {
		t.Error(got)
	}
}

func TestLog_Reopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, Options{File: path})
	l.Record(slog.Int("n", 1))
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	l.Record(slog.Int("n", 2))
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	l.Record(slog.Int("n", 3))
	if old, now := recorded(t, path+".1"), recorded(t, path); old != "1 2" || now != "3" {
		t.Errorf("%s, %s", old, now)
	}
	// A file that cannot be opened leaves the one that is open.
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err == nil {
		t.Error("a file in a directory that is gone was opened")
	}
	if err := l.Begin(); err != nil {
		t.Error(err)
	}
}

// broken fails while it is full.
type broken struct {
	bytes.Buffer
	full bool
}

func (b *broken) Write(p []byte) (int, error) {
	if b.full {
		return 0, errors.New("no space left")
	}
	return b.Buffer.Write(p)
}

func TestLog_WritesRejectedWhileFailing(t *testing.T) {
	for accept, want := range map[bool]error{false: ErrNotStored, true: nil} {
		var out broken
		var log bytes.Buffer
		failures := 0
		l := open(t, Options{Out: &out, Accept: accept, Log: slog.New(slog.NewTextHandler(&log, nil)), Failed: func() { failures++ }})
		if err := l.Begin(); err != nil {
			t.Fatal(err)
		}
		out.full = true
		l.Record(slog.Int("n", 1)) // made already
		if failures != 1 || !strings.Contains(log.String(), "record.n=1") || !strings.Contains(log.String(), "no space left") {
			t.Errorf("%d failures, log %s", failures, &log)
		}
		if err := l.Begin(); !errors.Is(err, want) {
			t.Errorf("accept %v: %v", accept, err)
		}
		out.full = false
		if err := l.Begin(); err != nil {
			t.Errorf("there is room again: %v", err)
		}
		l.Record(slog.Int("n", 2))
		if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"n":1`) || !strings.Contains(got, `"n":2`) {
			t.Errorf("stored: %s", got)
		}
	}
}

func TestLog_PendingRecordsBounded(t *testing.T) {
	l := open(t, Options{Out: &broken{full: true}})
	large := strings.Repeat("x", maxPending/3)
	for range 10 {
		l.Record(slog.String("large", large))
	}
	if len(l.pending) > maxPending || len(l.pending) < maxPending/2 {
		t.Errorf("%d bytes are kept", len(l.pending))
	}
}

func TestLog_Rotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, Options{File: path, MaxSize: 100})
	for i := range 40 {
		if err := l.Begin(); err != nil {
			t.Fatal(err)
		}
		l.Append(fmt.Appendf(nil, `{"n":%d,"text":"0123456789012345678"}`+"\n", i)) // two in a file
	}
	for name, want := range map[string]string{path: "38 39", path + ".1": "36 37", path + ".5": "28 29"} {
		if got := recorded(t, name); got != want {
			t.Errorf("%s: %s, want %s", filepath.Base(name), got, want)
		}
	}
	if files, err := filepath.Glob(path + "*"); err != nil || len(files) != 6 {
		t.Errorf("%v, %v", files, err)
	}
}
