//go:build integration && linux

package registry

import (
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"
)

func onSQLite(path string) string {
	return anonymous + fmt.Sprintf("database:\n  sqlite: {path: %q}\n", path)
}

// whole runs SQLite's integrity check on the file.
func whole(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var said string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&said); err != nil || said != "ok" {
		t.Errorf("the database is not whole: %s %v", said, err)
	}
}

func TestDatabase_FullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("this user may not mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	path := filepath.Join(dir, "registry.db")
	s := serve(t, onSQLite(path))
	large := func(name string) map[string]any {
		doc := server(name, "1.0.0")
		doc["_meta"] = map[string]any{"io.modelcontextprotocol.registry/publisher-provided": map[string]any{"x": strings.Repeat("x", 100_000)}}
		return doc
	}
	published := 0
	for ; published < 40; published++ {
		a := s.do("POST", publish, large(fmt.Sprintf("a.b/s%02d", published)))
		if a.status == 503 {
			break
		}
		mustDo(t, a, 200)
	}
	if published == 40 || published == 0 {
		t.Fatalf("the disk is full after %d", published)
	}
	for range 5 {
		mustDo(t, s.do("POST", publish, large("a.b/more")), 503)
		if l := list(t, s, "?limit=100"); len(l.Servers) != published {
			t.Errorf("%d of %d are listed", len(l.Servers), published)
		}
	}
	s.said(t, 0, "full")
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	mustDo(t, s.do("POST", publish, large("a.b/more")), 200)
	if code := s.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
	whole(t, path)

	t.Run("a file system that became read-only", func(t *testing.T) {
		s.start("127.0.0.1:0", "127.0.0.1:0")
		eventually(t, "it lists", func() error {
			if a := s.do("GET", servers, nil); a.status != 200 {
				return fmt.Errorf("%s", a)
			}
			return nil
		})
		// It cannot become so while files are open for writing; then no start.
		s.stop()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			t.Skip(err)
		}
		_, errOut, code := run(t, "", nil, "serve", "--config", s.config, "--address", "127.0.0.1:0", "--internal-address", "127.0.0.1:0")
		if code != 1 || !strings.Contains(errOut, path) || !strings.Contains(errOut, "read-only") {
			t.Errorf("exit %d: %s", code, errOut)
		}
	})
}

// SQLite would go on with a file that nobody will find again: what is
// acknowledged then would be lost.
func TestDatabase_FileDeleted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "registry.db")
	s := serve(t, onSQLite(path))
	mustDo(t, s.do("POST", publish, server("a.b/x", "1.0.0")), 200)
	refused := func(what string) {
		t.Helper()
		mustDo(t, s.do("POST", publish, server("a.b/y", "1.0.0")), 503)
		s.said(t, 0, what)
		eventually(t, "it is not ready", func() error {
			resp, err := httpGet(s.internal + "/readiness")
			if err != nil || resp != 503 {
				return fmt.Errorf("%d %v", resp, err)
			}
			return nil
		})
	}
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	refused("is gone")
	if err := os.WriteFile(path, nil, 0o600); err != nil { // another one
		t.Fatal(err)
	}
	refused("another file")
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	mustDo(t, s.do("POST", publish, server("a.b/y", "1.0.0")), 200) // it is back
	s.stop()
	whole(t, path)
}

func TestDatabase_UnusableAtStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	newer := filepath.Join(dir, "newer.db")
	s := serve(t, onSQLite(newer))
	s.stop()
	db, err := sql.Open("sqlite", newer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO registry_migration (version_id, is_applied) VALUES (99, 1)"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	write(t, filepath.Join(dir, "garbage.db"), strings.Repeat("garbage ", 1000))
	write(t, filepath.Join(dir, "half.db"), "SQLite format 3\x00"+strings.Repeat("\x00", 100))
	for file, word := range map[string]string{"newer.db": "later version", "garbage.db": "not a database", "half.db": "database", ".": "not a file"} {
		path := filepath.Join(dir, file)
		if file == "." {
			path = dir
		}
		config := filepath.Join(dir, "c.yaml")
		write(t, config, onSQLite(path))
		start := time.Now()
		_, errOut, code := run(t, "", nil, "serve", "--config", config, "--address", "127.0.0.1:0", "--internal-address", "127.0.0.1:0")
		if code != 1 || !strings.Contains(errOut, path) || !strings.Contains(errOut, word) && file != "." || strings.Count(errOut, "\n") > 1 {
			t.Errorf("%s: exit %d: %s", file, code, errOut)
		}
		if took := time.Since(start); took > patience/2 {
			t.Errorf("%s: it took %s", file, took)
		}
	}
}

func TestServe_PortsInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	config, database := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "r.db")
	write(t, config, onSQLite(database))
	for _, flags := range [][]string{{"--address", l.Addr().String(), "--internal-address", "127.0.0.1:0"}, {"--address", "127.0.0.1:0", "--internal-address", l.Addr().String()}} {
		_, errOut, code := run(t, "", nil, append([]string{"serve", "--config", config}, flags...)...)
		if code != 1 || !strings.Contains(errOut, l.Addr().String()) || !strings.Contains(errOut, "in use") {
			t.Errorf("exit %d: %s", code, errOut)
		}
	}
	if _, err := os.Stat(database); err == nil {
		t.Error("a database was made all the same")
	}
}

// An import that is ended in its middle leaves whole versions alone, and running
// it again goes on.
func TestImport_ResumeAfterKill(t *testing.T) {
	t.Parallel()
	const count = 3_000
	var file strings.Builder
	file.WriteString("[")
	for i := range count {
		if i > 0 {
			file.WriteString(",")
		}
		fmt.Fprintf(&file, `{"name":"a.b/s%04d","version":"1.0.0","description":"d"}`, i)
	}
	file.WriteString("]")
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			dir := t.TempDir()
			path, config, list := filepath.Join(dir, "r.db"), filepath.Join(dir, "c.yaml"), filepath.Join(dir, "list.json")
			write(t, config, onSQLite(path))
			write(t, list, file.String())
			var errOut strings.Builder
			cmd := exec.Command(program, "import", list, "--config", config)
			cmd.Stderr = &errOut
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it is under way", func() error {
				if n := rows(path); n < 300 {
					return fmt.Errorf("%d", n)
				}
				return nil
			})
			_ = cmd.Process.Signal(signal)
			_ = cmd.Wait()
			n := rows(path)
			if n >= count {
				t.Skip("it was faster than the signal")
			}
			if signal == syscall.SIGINT && (cmd.ProcessState.ExitCode() != 130 || !strings.Contains(errOut.String(), fmt.Sprintf("%d of %d were imported; run it again", n, count))) {
				t.Errorf("exit %d with %d imported: %s", cmd.ProcessState.ExitCode(), n, errOut.String())
			}
			whole(t, path)
			out, said, code := runFor(t, 5*time.Minute, "import", list, "--config", config)
			if code != 0 || !strings.Contains(out, fmt.Sprintf("%d added", count-n)) || !strings.Contains(out, fmt.Sprintf("%d unchanged", n)) {
				t.Errorf("exit %d: %s%s", code, out, said)
			}
		})
	}
}

func runFor(t *testing.T, within time.Duration, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut strings.Builder
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(within, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait()
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// rows counts the documents in a database file.
func rows(path string) int {
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		return 0
	}
	defer db.Close()
	n := 0
	_ = db.QueryRow("SELECT count(*) FROM version JOIN document ON version_id = id").Scan(&n)
	return n
}

func TestDatabase_TwoServersOneFile(t *testing.T) {
	t.Parallel()
	config := onSQLite(filepath.Join(t.TempDir(), "registry.db"))
	a, b := serve(t, config), serve(t, config)
	oneWins(t, a, b)
	for i := range 20 {
		name := fmt.Sprintf("c.d/s%d", i)
		mustDo(t, a.do("POST", publish, server(name, "1.0.0")), 200)
		mustDo(t, b.do("GET", at(name, "/versions/latest"), nil), 200) // at once
		a, b = b, a
	}
}
