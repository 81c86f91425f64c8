package cli_test

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// keep stores a workload that ended in the state last.
func keep(t *testing.T, a *base.App, spec *workload.Spec, last workload.State, reason string) {
	t.Helper()
	store, err := a.Store()
	if err != nil {
		t.Fatal(err)
	}
	spec.Schema, spec.Group = workload.Schema, manager.DefaultGroup
	if spec.Proxy.Mode == "" {
		spec.Proxy.Mode = "streamable-http"
	}
	spec.Proxy.Host = "127.0.0.1"
	if err := store.Create(spec); err != nil {
		t.Fatal(err)
	}
	if err := store.SetLast(spec.Name, last, reason); err != nil {
		t.Fatal(err)
	}
}

// inContainer and remotely are two workloads to start from.
func inContainer(name string) *workload.Spec {
	return &workload.Spec{Name: name, Source: workload.Source{Kind: "image", Ref: "img"}, Image: "img", Transport: workload.Stdio, Proxy: workload.Proxy{Port: unusedPort()}}
}

func remotely(name string) *workload.Spec {
	const url = "http://127.0.0.1:1/mcp"
	return &workload.Spec{Name: name, Source: workload.Source{Kind: "remote", Ref: url}, Remote: &workload.Remote{URL: url}, Transport: workload.StreamableHTTP, Proxy: workload.Proxy{Port: unusedPort()}}
}

func unusedPort() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// check is what a test reads of one finding of doctor.
type check struct {
	Name, Found, Advice string
	OK                  bool
}

// checksOf runs `doctor -o json`. One check at least fails: there is no engine.
func checksOf(t *testing.T, a *base.App) (checks []check) {
	t.Helper()
	stdout, stderr, code := clitest.Run(t, a, "doctor", "-o", "json")
	if err := json.Unmarshal([]byte(stdout), &checks); err != nil || code != base.ExitFailure {
		t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	return checks
}

func TestDoctor_FailedWorkloads(t *testing.T) {
	a := clitest.App(t)
	keep(t, a, inContainer("killed"), workload.Running, "") // its end was not recorded
	keep(t, a, remotely("away"), workload.Failed, "the server did not answer")
	keep(t, a, inContainer("rests"), workload.Stopped, "")
	checks := map[string]check{}
	for _, c := range checksOf(t, a) {
		checks[strings.TrimSpace(c.Name)] = c
	}
	for name, advice := range map[string]string{
		"killed": "see `thv logs killed` and `thv logs --proxy killed` for the cause; `thv start killed` tries again, `thv rm killed` removes it",
		"away":   "see `thv logs --proxy away` for the cause; `thv start away` tries again, `thv rm away` removes it",
	} {
		c, named := checks[name]
		if !named || c.OK || !strings.HasPrefix(c.Found, "failed: ") || c.Advice != advice {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c, named := checks["rests"]; named {
		t.Errorf("a workload that was stopped is no finding: %+v", c)
	}
	stdout, stderr, code := clitest.Run(t, a, "doctor")
	if code != base.ExitFailure || !strings.Contains(stdout, "FAIL    killed") || !strings.Contains(stdout, "FAIL    away") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestDoctor_PortsInUse(t *testing.T) {
	a := clitest.App(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	for name, state := range map[string]workload.State{"rests": workload.Stopped, "broke": workload.Failed} {
		spec := inContainer(name)
		spec.Proxy.Port = port
		keep(t, a, spec, state, "why")
	}
	found := 0
	for _, c := range checksOf(t, a) {
		if strings.HasPrefix(c.Name, "  port of ") && !c.OK && strings.Contains(c.Found, "port "+strconv.Itoa(port)+" is in use") {
			found++
		}
	}
	if found != 2 {
		t.Errorf("%d ports found, want those of both", found)
	}
}

func TestAdvice_LostConfiguration(t *testing.T) {
	a := clitest.App(t)
	keep(t, a, inContainer("torn"), workload.Stopped, "")
	dirs, err := a.Dirs()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dirs.State, "workloads", "torn", "spec.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := clitest.Run(t, a, "mcp", "tools", "torn"); code != base.ExitFailure || stderr != "Error: workload \"torn\" is failed; its configuration is lost or damaged; remove it with `thv rm torn`\n" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
