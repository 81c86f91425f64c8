//go:build integration

package registry

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := []string{"XDG_STATE_HOME=" + dir}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, bad := file("good.yaml", anonymous), file("bad.yaml", "auth:\n  oauth:\n    realm: x\nsourcs: []\n")
	missing := file("missing.yaml", "auth:\n  oauth:\n    resourceUrl: https://r.example\n    providers:\n      - {name: a, issuerUrl: https://i.example, audience: x, caCertPath: nowhere.pem, introspectionUrl: https://i.example/i, clientId: c, clientSecretFile: nothing}\n")
	tests := []struct {
		name string
		args []string
		code int
		want []string // in what it prints
	}{
		{"help has examples", []string{"serve", "--help"}, 0, []string{"Examples:", "--internal-address"}},
		{"version", []string{"version", "-o", "json"}, 0, []string{`"version"`}},
		{"no config", []string{"serve"}, 1, []string{"config"}},
		{"an unknown flag", []string{"serve", "--confg", good}, 2, []string{"did you mean --config"}},
		{"an unknown command", []string{"server"}, 1, []string{"unknown command"}},
		{"a port alone", []string{"serve", "--config", good, "--address", "8080"}, 2, []string{":8080"}},
		{"no such port", []string{"serve", "--config", good, "--address", "127.0.0.1:99999"}, 2, []string{"port"}},
		{"a level nobody knows", []string{"serve", "--config", good, "--log-level", "loud"}, 2, []string{"--log-level"}},
		{"a file that is not there", []string{"validate", "--config", filepath.Join(dir, "none")}, 1, []string{"none"}},
		{"a valid file", []string{"validate", "--config", good}, 0, []string{"valid", "SQLite"}},
		{"all faults at once", []string{"validate", "--config", bad}, 2, []string{"sourcs", "sources"}},
		{"files that are not there", []string{"validate", "--config", missing}, 2, []string{"caCertPath", "clientSecretFile"}},
		{"files not looked at", []string{"validate", "--config", missing, "--skip-files"}, 0, []string{"valid"}},
		{"serve refuses as validate does", []string{"serve", "--config", bad}, 2, []string{"sourcs"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out, errOut, code := run(t, "", env, test.args...)
			if code != test.code {
				t.Errorf("exit %d, wanted %d\n%s%s", code, test.code, out, errOut)
			}
			for _, word := range test.want {
				if !strings.Contains(out+errOut, word) {
					t.Errorf("no %q in\n%s%s", word, out, errOut)
				}
			}
		})
	}
}

func TestServe_PortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(anonymous), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errOut, code := run(t, "", []string{"XDG_STATE_HOME=" + t.TempDir()}, "serve", "--config", path, "--address", l.Addr().String(), "--internal-address", "127.0.0.1:0")
	if code != 1 || !strings.Contains(errOut, "--address "+l.Addr().String()) || !strings.Contains(errOut, "in use") {
		t.Errorf("exit %d: %s", code, errOut)
	}
}

// Both example files of real registries go in, and every server is there.
func TestImport_RegistryFiles(t *testing.T) {
	t.Parallel()
	data := os.Getenv("THV_TEST_REGISTRY_DATA")
	if data == "" {
		t.Skip("THV_TEST_REGISTRY_DATA does not name the folder of real registry files")
	}
	for file, least := range map[string]int{"registry-wrapped-format.json": 12, "registry-older-format.json": 100} {
		t.Run(file, func(t *testing.T) {
			s := serve(t, anonymous)
			env := []string{"XDG_STATE_HOME=" + filepath.Dir(s.config)}
			path := filepath.Join(data, file)
			type result struct{ Found, Added, Updated, Unchanged int }
			importing := func(args ...string) (r result, code int) {
				out, errOut, code := run(t, "", env, append([]string{"import", path, "--config", s.config, "-o", "json"}, args...)...)
				if err := json.Unmarshal([]byte(out), &r); err != nil {
					t.Fatalf("%v: %s%s", err, out, errOut)
				}
				return r, code
			}
			if r, _ := importing("--dry-run"); r.Found < least || r.Added != 0 {
				t.Errorf("dry run: %+v", r)
			}
			r, code := importing()
			if code != 0 || r.Added != r.Found || r.Found < least {
				t.Fatalf("exit %d, %+v", code, r)
			}
			if again, code := importing(); code != 0 || again.Unchanged != r.Found {
				t.Errorf("again: exit %d, %+v", code, again)
			}
			// The server that runs shows it at once.
			seen := 0
			for cursor, pages := "", 0; ; pages++ {
				l := list(t, s, "?limit=100&cursor="+cursor)
				seen += len(l.Servers)
				if cursor = l.Metadata.NextCursor; cursor == "" || pages > 10 {
					break
				}
			}
			if seen != r.Found {
				t.Errorf("%d of %d servers are listed", seen, r.Found)
			}
		})
	}
}

func TestImport_ReportsKeptVersions(t *testing.T) {
	t.Parallel()
	s := serve(t, anonymous)
	env := []string{"XDG_STATE_HOME=" + filepath.Dir(s.config)}
	one := `{"name":"a.b/x","version":"1.0.0","description":"one"}`
	two := strings.Replace(one, `"one"`, `"two"`, 1)
	if out, errOut, code := run(t, one, env, "import", "-", "--config", s.config); code != 0 || !strings.Contains(out, "1 added") {
		t.Fatalf("exit %d: %s%s", code, out, errOut)
	}
	if out, errOut, code := run(t, two, env, "import", "-", "--config", s.config); code != 1 || !strings.Contains(errOut, "a.b/x 1.0.0") || !strings.Contains(errOut, "--update") {
		t.Errorf("exit %d: %s%s", code, out, errOut)
	}
	if out, errOut, code := run(t, two, env, "import", "-", "--config", s.config, "--update"); code != 0 || !strings.Contains(out, "1 updated") {
		t.Errorf("exit %d: %s%s", code, out, errOut)
	}
	var got serverAnswer
	s.do("GET", at("a.b/x", "/versions/1.0.0"), nil).into(t, &got)
	if got.Server.Description != "two" {
		t.Errorf("%+v", got)
	}
	if _, errOut, code := run(t, `{"nothing": 1}`, env, "import", "-", "--config", s.config); code != 1 || errOut == "" {
		t.Errorf("exit %d: %s", code, errOut)
	}
}

// Stopping answers what is under way before it ends.
func TestServe_ShutdownDrainsRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, anonymous)
	// A request whose body is on its way.
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body, err := json.Marshal(server("a.b/late", "1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", publish, len(body))
	// "100 Continue" is sent when the handler reads, so the request is under way.
	first := make([]byte, 25)
	if _, err := io.ReadFull(conn, first); err != nil || !strings.Contains(string(first), "100") {
		t.Fatalf("%q, %v", first, err)
	}
	stopped := make(chan int, 1)
	go func() { stopped <- s.stop() }()
	s.said(t, 0, "stopping")
	if _, err := http.Get(s.base + "/openapi.json"); err == nil {
		t.Log("a new connection was still accepted") // the listener closes a moment later
	}
	if _, err := conn.Write(body); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(conn)
	if err != nil || !strings.Contains(string(rest), "200 OK") {
		t.Errorf("the request under way was answered with %q, %v", rest, err)
	}
	if code := <-stopped; code != 0 {
		t.Errorf("exit %d\n%s", code, s.log)
	}
}

func TestServe_SIGHUP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, log := filepath.Join(dir, "servers.json"), filepath.Join(dir, "audit.log")
	list := func(servers string) string { return `{"data":{"servers":[` + servers + `]}}` }
	write(t, file, list(""))
	s := serve(t, anonymous+fmt.Sprintf(`
audit: {file: %q}
sources:
  - {name: own, managed: {}}
  - {name: files, file: {path: %q}, interval: 1h}
registries:
  - {name: default, sources: [own, files]}
`, log, file))
	mustDo(t, s.do("POST", publish, server("a.b/x", "1.0.0")), 200)
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	mark := s.mark()
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.said(t, mark, "the audit file was reopened")
	mustDo(t, s.do("POST", publish, server("a.b/y", "1.0.0")), 200)
	for path, name := range map[string]string{log + ".1": "a.b/x", log: "a.b/y"} {
		content, err := os.ReadFile(path)
		if err != nil || strings.Count(string(content), "\n") != 1 || !strings.Contains(string(content), name) {
			t.Errorf("%s: %s, %v", path, content, err)
		}
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, s.log)
	}
}
