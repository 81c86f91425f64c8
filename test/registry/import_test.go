//go:build integration

package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/test/local"
	"github.com/toolhaven/toolhaven/test/postgres"
)

// importResult is the output of an import.
type importResult struct {
	Found, Added, Updated, Unchanged int
	Differing                        []string
}

// importRecord is a line of the record of writes.
type importRecord struct {
	Msg, Outcome, Command, Registry, User, Reason string
	Added, Updated                                []string
	Unchanged, Differing                          int
}

// importing is a registry with a file to import, and with an audit file.
type importing struct {
	*instance
	file, audit string
	env         []string
}

// eachImporting runs a test on both databases, with a file of n servers.
func eachImporting(t *testing.T, n int, test func(*testing.T, importing)) {
	prepare := func(t *testing.T, config string) importing {
		audit := filepath.Join(t.TempDir(), "audit.log")
		s := serve(t, anonymous+fmt.Sprintf("audit: {file: %q}\n", audit)+config)
		docs := make([]map[string]any, n)
		for i := range docs {
			docs[i] = server(fmt.Sprintf("a.b/s%05d", i), "1.0.0")
		}
		content, err := json.Marshal(docs)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "servers.json")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return importing{instance: s, file: file, audit: audit, env: []string{"XDG_STATE_HOME=" + filepath.Dir(s.config)}}
	}
	t.Run("SQLite", func(t *testing.T) { test(t, prepare(t, "")) })
	t.Run("PostgreSQL", func(t *testing.T) {
		test(t, prepare(t, fmt.Sprintf("database:\n  postgres: {url: %q}\n", postgres.Start(t).Database(t))))
	})
}

func (s importing) args(more ...string) []string {
	return append([]string{"import", s.file, "--config", s.config, "-o", "json"}, more...)
}

// run runs an import and returns its result.
func (s importing) run(t *testing.T, wantCode int, more ...string) (r importResult) {
	t.Helper()
	out, errOut, code := run(t, "", s.env, s.args(more...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != wantCode {
		t.Fatalf("exit %d, %v: %.2000s%.2000s", code, err, out, errOut)
	}
	return r
}

// records are the lines of the audit file about imports.
func (s importing) records(t *testing.T) (out []importRecord) {
	t.Helper()
	content, err := os.ReadFile(s.audit)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(content) {
		var r importRecord
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %.300s", err, line)
		}
		if r.Command == "import" {
			if r.Msg != "registry write" || r.Registry != "default" || r.User == "" {
				t.Errorf("a record is %+v", r)
			}
			out = append(out, r)
		}
	}
	return out
}

func TestImport_Batches(t *testing.T) {
	t.Parallel()
	const n = 1201
	eachImporting(t, n, func(t *testing.T, s importing) {
		other := server("a.b/s00700", "1.0.0")
		other["title"] = "Another"
		mustDo(t, s.do("POST", publish, other), 200)
		mustDo(t, s.do("POST", publish, server("a.b/s00003", "1.0.0")), 200)

		r := s.run(t, 1)
		if r.Found != n || r.Added != n-2 || r.Unchanged != 1 || r.Updated != 0 || len(r.Differing) != 1 || r.Differing[0] != "a.b/s00700 1.0.0" {
			t.Errorf("it says %+v", r)
		}
		records, added := s.records(t), map[string]bool{}
		for _, r := range records {
			for _, name := range r.Added {
				added[name] = true
			}
			if r.Outcome != "done" || len(r.Updated) > 0 {
				t.Errorf("a record says %s, %s, %v", r.Outcome, r.Reason, r.Updated)
			}
		}
		if len(records) != 3 || len(added) != n-2 || added["a.b/s00700 1.0.0"] || !added["a.b/s01200 1.0.0"] {
			t.Errorf("%d records of %d versions", len(records), len(added))
		}

		if r := s.run(t, 0, "--update"); r.Added != 0 || r.Updated != 1 || r.Unchanged != n-1 || len(r.Differing) != 0 {
			t.Errorf("with --update it says %+v", r)
		}
		again := s.records(t)[len(records):]
		if len(again) != 3 || len(again[1].Updated) != 1 || again[1].Updated[0] != "a.b/s00700 1.0.0" || again[0].Unchanged != 500 {
			t.Errorf("the records are %+v", again)
		}
		var got serverAnswer
		mustDo(t, s.do("GET", at("a.b/s00700", "/versions/1.0.0"), nil), 200).into(t, &got)
		if got.Server.Title == "Another" {
			t.Error("it was not replaced")
		}
	})
}

// An import that is interrupted has done whole batches, says how many versions
// that is, and goes on when it is run again.
func TestImport_ResumeAfterInterrupt(t *testing.T) {
	t.Parallel()
	const n = 20_000
	eachImporting(t, n, func(t *testing.T, s importing) {
		cmd := exec.Command(program, s.args()...)
		cmd.Env = append(os.Environ(), s.env...)
		var errOut local.Output
		cmd.Stderr = &errOut
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a batch is recorded", func() error {
			if content, err := os.ReadFile(s.audit); err != nil || len(content) == 0 {
				return fmt.Errorf("there is no record: %w", err)
			}
			return nil
		})
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		var imported, found int
		_, said, _ := strings.Cut(errOut.String(), s.file+": ")
		if _, err := fmt.Sscanf(said, "%d of %d were imported; run it again to go on", &imported, &found); err != nil || cmd.ProcessState.ExitCode() != 130 {
			t.Fatalf("exit %d, %v: %s", cmd.ProcessState.ExitCode(), err, errOut.String())
		}
		if imported%500 != 0 || imported == 0 || imported == n || found != n {
			t.Errorf("%d of %d were imported", imported, found)
		}
		var done []string
		for _, r := range s.records(t) {
			if r.Outcome == "done" {
				done = append(done, r.Added...)
			}
		}
		if len(done) != imported {
			t.Errorf("%d are recorded, and %d are said to be imported", len(done), imported)
		}
		began := time.Now()
		r := s.run(t, 0)
		t.Logf("the other %d took %s", n-imported, time.Since(began).Round(10*time.Millisecond))
		want := importResult{Found: n, Added: n - imported, Unchanged: imported, Differing: []string{}}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Error(diff)
		}
	})
}

// Without audit.file the record goes to standard error: standard output is for
// the result.
func TestImport_AuditOnStandardError(t *testing.T) {
	t.Parallel()
	s := serve(t, anonymous)
	env := []string{"XDG_STATE_HOME=" + filepath.Dir(s.config)}
	out, errOut, code := run(t, `{"name":"a.b/x","version":"1.0.0","description":"one"}`, env, "import", "-", "--config", s.config)
	var r importRecord
	if err := json.Unmarshal([]byte(errOut), &r); err != nil || code != 0 || len(r.Added) != 1 || r.Added[0] != "a.b/x 1.0.0" {
		t.Errorf("exit %d, %v: %s%s", code, err, out, errOut)
	}
	if _, errOut, code := run(t, `{"name":"a.b/y","version":"1.0.0","description":"one"}`, env, "import", "-", "--config", s.config, "--dry-run"); code != 0 || errOut != "" {
		t.Errorf("a dry run: exit %d, and records %s", code, errOut)
	}
}
