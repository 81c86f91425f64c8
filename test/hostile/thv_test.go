//go:build hostile

package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/test/tokens"
)

// thv is the program under test, which `make build` makes; THV_UNDER_TEST names
// another build of it.
func thv() string {
	if path := os.Getenv("THV_UNDER_TEST"); path != "" {
		return path
	}
	path, err := filepath.Abs("../../bin/thv")
	if err != nil {
		panic(err) // the working directory is gone
	}
	return path
}

// maxResident bounds the resident memory of a gateway, in KiB.
const maxResident = 400 << 10

// The built program before servers that run elsewhere, of each transport and era: as
// [TestServersThatDoWrong], with every stage of the gateway at servers of streamable HTTP, and
// its process stays small.
func TestThvBeforeServersThatDoWrong(t *testing.T) {
	if _, err := os.Stat(thv()); err != nil {
		t.Fatalf("%v; `make build` makes it", err)
	}
	dir, err := os.MkdirTemp("", "thv") // sockets want short paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	run := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, thv(), args...)
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+dir, "XDG_RUNTIME_DIR="+dir, "XDG_CONFIG_HOME="+dir)
		var failed bytes.Buffer
		cmd.Stderr = &failed
		out, err := cmd.Output()
		if err != nil {
			t.Logf("thv %s: %s", strings.Join(args, " "), &failed)
		}
		return string(out), err
	}
	oneEra := func(modern bool) map[string]string {
		return all(func(f Fault) string {
			if modern && f.Modern != "" {
				return f.Modern
			}
			return f.Want
		})
	}
	issuer := tokens.Start(t, "https://tools.example/mcp")
	stages := everyStage(t, issuer)
	for _, server := range []struct {
		name, path string
		handler    http.Handler
		modern     bool
		wants      map[string]string
		flags      []string
	}{
		{"sessions", "/mcp", &Server{}, false, oneEra(false), stages},
		{"stateless", "/mcp", &Server{Modern: true}, true, oneEra(true), stages},
		{"events", "/sse", &SSE{}, false, sseWants(), nil},
	} {
		t.Run(server.name, func(t *testing.T) {
			url := strings.TrimSuffix(serve(t, server.handler), "/mcp") + server.path
			t.Cleanup(func() {
				if _, err := run("rm", server.name); err != nil {
					t.Error(err)
				}
			})
			out, err := run(append([]string{"run", url, "--name", server.name}, server.flags...)...)
			if err != nil {
				t.Fatal(err)
			}
			url = strings.TrimSpace(out)
			if server.flags != nil {
				refuseAll(t, url, issuer)
				bearers.Store(url, issuer.Token(t, map[string]any{"exp": time.Now().Add(time.Hour).Unix()}))
			}
			sufferAll(t, url, server.modern, server.wants)
			if kib := peak(t, run, server.name); kib > maxResident {
				t.Errorf("the gateway took %d MiB", kib>>10)
			} else {
				t.Logf("the gateway took %d MiB", kib>>10)
			}
			if s, ok := server.handler.(*Server); ok && s.Twice() != "" {
				t.Errorf("the call of %s was made %d times", s.Twice(), s.Calls(s.Twice()))
			}
		})
	}
}

// peak is the most resident memory that the owner of a workload had, in KiB.
func peak(t *testing.T, run func(...string) (string, error), name string) int {
	t.Helper()
	out, err := run("status", name, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var status struct{ PID int }
	if err := json.Unmarshal([]byte(out), &status); err != nil || status.PID == 0 {
		t.Fatalf("%s: %v", out, err)
	}
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(status.PID), "status"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(b)
	if found == nil {
		t.Fatalf("%s", b)
	}
	kib, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib
}
