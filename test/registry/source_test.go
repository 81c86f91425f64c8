//go:build integration

package registry

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/test/idp"
	"github.com/toolhaven/toolhaven/test/postgres"
)

// file is a registry file in the wrapped format with these servers, at 1.0.0.
func registryFile(names ...string) string {
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf(`{"name":%q,"version":"1.0.0","description":"From a file"}`, name))
	}
	return `{"version":"1.0.0","meta":{"last_updated":"2026-01-01T00:00:00Z"},"data":{"servers":[` + strings.Join(list, ",") + `]}}`
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lists waits until the default registry lists these servers.
func lists(t *testing.T, s *instance, want ...string) {
	t.Helper()
	eventually(t, "the registry lists "+strings.Join(want, ", "), func() error {
		if diff := cmp.Diff(want, names(list(t, s, ""))); diff != "" {
			return fmt.Errorf("%s", diff)
		}
		return nil
	})
}

func metric(t *testing.T, s *instance, line string) error {
	t.Helper()
	resp, err := http.Get(s.internal + "/metrics")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var text strings.Builder
	buf := make([]byte, 64<<10)
	for {
		n, err := resp.Body.Read(buf)
		text.Write(buf[:n])
		if err != nil {
			break
		}
	}
	if !strings.Contains(text.String(), line) {
		return fmt.Errorf("/metrics has no %s", line)
	}
	return nil
}

// fails waits until the metrics report a failure of a source, the first or a later one.
func fails(t *testing.T, s *instance, source string) {
	t.Helper()
	line := fmt.Sprintf(`thv_registry_source_failures{source=%q} `, source)
	eventually(t, "the failure is told", func() error {
		if metric(t, s, line+"0\n") == nil {
			return fmt.Errorf("no failure")
		}
		return metric(t, s, line)
	})
}

func TestSource_FileWatched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "servers.json")
	write(t, path, registryFile("a.b/one", "a.b/two"))
	s := serve(t, anonymous+"sources:\n  - {name: f, file: {path: "+path+"}, interval: 1h}\n")
	lists(t, s, "a.b/one 1.0.0", "a.b/two 1.0.0")
	mustDo(t, s.do("POST", publish, server("a.b/three", "1.0.0")), http.StatusNotImplemented)

	write(t, path, registryFile("a.b/one", "a.b/three"))
	lists(t, s, "a.b/one 1.0.0", "a.b/three 1.0.0")
	if l := list(t, s, "?include_deleted=true"); len(l.Servers) != 3 {
		t.Errorf("what went is not told: %v", names(l))
	}

	write(t, path, registryFile("a.b/one")[:60]) // half written
	fails(t, s, "f")
	lists(t, s, "a.b/one 1.0.0", "a.b/three 1.0.0")
	s.said(t, 0, path)
	write(t, path, registryFile("a.b/four"))
	lists(t, s, "a.b/four 1.0.0")
}

func TestSource_Git(t *testing.T) {
	t.Parallel()
	repo := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q", "-b", "main")
	write(t, filepath.Join(repo, "registry.json"), registryFile("a.b/one", "a.b/two", "c.d/other"))
	git("add", ".")
	git("commit", "-q", "-m", "one")
	s := serve(t, anonymous+"sources:\n  - name: g\n    git: {repository: \"file://"+repo+"\", branch: main}\n    interval: 1s\n    filter: {names: {include: [\"a.b/*\"], exclude: [\"*/two\"]}}\n")
	lists(t, s, "a.b/one 1.0.0")
	write(t, filepath.Join(repo, "registry.json"), registryFile("a.b/three"))
	git("commit", "-q", "-a", "-m", "two")
	lists(t, s, "a.b/three 1.0.0")
}

// A registry of ours is the source of another of ours, through its front door:
// with a token from a file, that is read again when it changes.
func TestSource_OtherInstance(t *testing.T) {
	t.Parallel()
	p := idp.Start(t, idp.Options{})
	first := serve(t, oauthConfig(t, "", p))
	writer := first.as(t, p.Token(t, resource, "mcp-registry:write"))
	for _, v := range []string{"1.0.0", "2.0.0"} {
		mustDo(t, writer.do("POST", publish, server("a.b/one", v)), http.StatusOK)
	}
	mustDo(t, writer.do("PATCH", at("a.b/one", "/versions/1.0.0/status"), `{"status":"deprecated","statusMessage":"old"}`), http.StatusOK)
	mustDo(t, writer.do("POST", publish, server("a.b/gone", "1.0.0")), http.StatusOK)
	mustDo(t, writer.do("DELETE", at("a.b/gone", "/versions/1.0.0"), nil), http.StatusOK)

	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "not.a.token")
	second := serve(t, anonymous+fmt.Sprintf(`
sources:
  - {name: ours, managed: {}}
  - {name: upstream, api: {endpoint: "%s/registry/default", tokenFile: %s}, interval: 1s}
registries:
  - {name: default, sources: [ours, upstream]}
`, first.base, token))
	second.said(t, 0, "401")
	write(t, token, p.Token(t, resource, "mcp-registry:read"))
	lists(t, second, "a.b/one 1.0.0", "a.b/one 2.0.0")

	// Word for word, with what the registry says of it; but when it was updated is
	// when this registry learned of it.
	updated := regexp.MustCompile(`"updatedAt":"[^"]*"`)
	for _, path := range []string{at("a.b/one", "/versions/1.0.0"), at("a.b/one", "/versions/latest"), at("a.b/gone", "/versions/1.0.0?include_deleted=true")} {
		if diff := cmp.Diff(updated.ReplaceAllString(writer.do("GET", path, nil).String(), ""), updated.ReplaceAllString(second.do("GET", path, nil).String(), "")); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	t.Run("a server of its own comes first", func(t *testing.T) {
		mine := server("a.b/one", "0.1.0")
		// It is published to the source before the upstream, so it takes the name.
		mustDo(t, second.do("POST", publish, mine), http.StatusOK)
		lists(t, second, "a.b/one 0.1.0")
	})
	t.Run("what the upstream listed stays when it is gone", func(t *testing.T) {
		mustDo(t, writer.do("POST", publish, server("a.b/last", "1.0.0")), http.StatusOK)
		lists(t, second, "a.b/last 1.0.0", "a.b/one 0.1.0")
		first.stop()
		fails(t, second, "upstream")
		lists(t, second, "a.b/last 1.0.0", "a.b/one 0.1.0")
	})
	if strings.Contains(second.log.String(), "eyJ") {
		t.Error("the log holds a token")
	}
}

// Two replicas share a database: what one writes the other shows at once, and
// one source is synchronized by one of them, by the other when it dies.
func TestSource_TwoReplicas(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "servers.json")
	write(t, path, registryFile("a.b/one"))
	config := anonymous + fmt.Sprintf(`
database:
  postgres: {url: %q}
sources:
  - {name: ours, managed: {}}
  - {name: f, file: {path: %s}, interval: 1s}
`, postgres.Start(t).Database(t), path)
	a, b := serve(t, config), serve(t, config)
	lists(t, a, "a.b/one 1.0.0")
	lists(t, b, "a.b/one 1.0.0")
	for i := range 20 {
		name := fmt.Sprintf("c.d/s%d", i)
		writer, reader := a, b
		if i%2 == 1 {
			writer, reader = b, a
		}
		mustDo(t, writer.do("POST", publish, server(name, "1.0.0")), http.StatusOK)
		mustDo(t, reader.do("GET", at(name, "/versions/latest"), nil), http.StatusOK)
	}
	_ = a.cmd.Process.Kill()
	<-a.ended
	write(t, path, registryFile("a.b/two"))
	eventually(t, "the other one takes over", func() error {
		if a := b.do("GET", at("a.b/two", "/versions/latest"), nil); a.status != http.StatusOK {
			return fmt.Errorf("%s", a)
		}
		return nil
	})
}
