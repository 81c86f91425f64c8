package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func TestLifecycle(t *testing.T) {
	app := clitest.LivingApp(t)
	server := clitest.RemoteServer(t, nil)
	url := clitest.Must(t, app, "run", server, "--name", "one")
	if !strings.HasPrefix(url, "http://127.0.0.1:") || !strings.HasSuffix(url, "/mcp\n") || strings.Count(url, "\n") != 1 {
		t.Errorf("run prints %q", url)
	}
	_, stderr, code := clitest.Run(t, app, "run", server, "--name", "one")
	if code != base.ExitFailure || !strings.Contains(stderr, `"one", which is running; remove it with `+"`thv rm one`, or choose another --name") {
		t.Errorf("a second run: exit code %d, %s", code, stderr)
	}
	if got := clitest.Must(t, app, "list"); !strings.HasPrefix(got, "one\trunning\t"+strings.TrimSpace(url)+"\tdefault\t"+server+"\t") {
		t.Errorf("list prints %q", got)
	}
	var st workload.Status
	if err := json.Unmarshal([]byte(clitest.Must(t, app, "status", "one", "-o", "json")), &st); err != nil || st.State != workload.Running || st.PID == 0 {
		t.Errorf("status: %+v, %v", st, err)
	}
	if got := clitest.Must(t, app, "__complete", "stop", ""); !strings.HasPrefix(got, "one\n") {
		t.Errorf("completion of names: %q", got)
	}
	clitest.Must(t, app, "stop", "one")
	if _, stderr, code := clitest.Run(t, app, "stop", "one"); code != base.ExitOK || !strings.Contains(stderr, "not running") {
		t.Errorf("a second stop: exit code %d, %s", code, stderr)
	}
	if got := clitest.Must(t, app, "list", "-o", "json"); !strings.Contains(got, `"state": "stopped"`) {
		t.Errorf("after stop: %s", got)
	}
	if got := clitest.Must(t, app, "list", "--running", "-o", "json"); got != "[]\n" {
		t.Errorf("what runs after stop: %s", got)
	}
	if _, stderr, code := clitest.Run(t, app, "mcp", "tools", "one"); code != base.ExitFailure || !strings.Contains(stderr, "thv start one") {
		t.Errorf("mcp of a stopped workload: exit code %d, %s", code, stderr)
	}
	if got := clitest.Must(t, app, "start", "one"); got != url {
		t.Errorf("start prints %q, run printed %q", got, url)
	}
	var all []workload.Status
	if err := json.Unmarshal([]byte(clitest.Must(t, app, "restart", "--all", "-o", "json")), &all); err != nil || len(all) != 1 || all[0].URL+"\n" != url {
		t.Errorf("restart: %+v, %v", all, err)
	}
	// One name of several that is not there: the others are done all the same.
	stdout, stderr, code := clitest.Run(t, app, "rm", "nobody", "one")
	if code != base.ExitFailure || stdout != "" || !strings.Contains(stderr, `no such workload: "nobody"`) || !strings.Contains(stderr, "one removed") {
		t.Errorf("rm: exit code %d, %s", code, stderr)
	}
	if got := clitest.Must(t, app, "list", "-o", "json"); got != "[]\n" {
		t.Errorf("after rm: %s", got)
	}
}

func TestMCP_ThroughAWorkloadAndByURL(t *testing.T) {
	app := clitest.LivingApp(t)
	server := clitest.RemoteServer(t, nil)
	clitest.Must(t, app, "run", server, "--name", "one", "--proxy-mode", "sse")
	for _, target := range []string{"one", server} {
		for _, c := range []struct {
			args []string
			want string
		}{
			{[]string{"tools", target}, "echo\ttext [n]\tSays it again.\nfail\t\t\n"},
			{[]string{"resources", target}, "test://a\ta\ttext/plain\t\n"},
			{[]string{"read", target, "test://a"}, "content of a"},
			{[]string{"prompts", target}, "ask\twho [how]\t\n"},
			{[]string{"call", target, "echo", "--arg", "text=hi", "--arg", "n=2"}, "hihi\n"},
			{[]string{"call", target, "echo", "--json", `{"text":"a"}`, "--arg", "text=b=c"}, "b=c\n"},
		} {
			if got := clitest.Must(t, app, append([]string{"mcp"}, c.args...)...); got != c.want {
				t.Errorf("mcp %v prints %q, want %q", c.args, got, c.want)
			}
		}
		stdout, _, code := clitest.Run(t, app, "mcp", "call", target, "fail")
		if code != base.ExitFailure || stdout != "no \x1b[31mway\n" {
			t.Errorf("a tool that fails: exit code %d, %q", code, stdout)
		}
		var result struct {
			IsError bool
			Content []struct{ Text string }
		}
		stdout, _, code = clitest.Run(t, app, "mcp", "call", target, "fail", "-o", "json")
		if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != base.ExitFailure || !result.IsError || !strings.Contains(result.Content[0].Text, "way") {
			t.Errorf("as JSON: exit code %d, %s", code, stdout)
		}
		if _, stderr, code := clitest.Run(t, app, "mcp", "call", target, "nothing"); code != base.ExitFailure || !strings.Contains(stderr, "nothing") {
			t.Errorf("a tool that is not there: exit code %d, %s", code, stderr)
		}
	}
}

func TestRun_JSON(t *testing.T) {
	app := clitest.LivingApp(t)
	server := clitest.RemoteServer(t, nil)
	var ran, asked workload.Status
	stdout, stderr, code := clitest.Run(t, app, "run", server, "--name", "one", "-o", "json")
	if err := json.Unmarshal([]byte(stdout), &ran); err != nil || code != base.ExitOK || !strings.Contains(stderr, "one is running") {
		t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	if err := json.Unmarshal([]byte(clitest.Must(t, app, "status", "one", "-o", "json")), &asked); err != nil {
		t.Fatal(err)
	}
	ran.Sessions = asked.Sessions
	if diff := cmp.Diff(asked, ran); diff != "" || ran.State != workload.Running || ran.URL == "" || ran.Server != "remote 1" {
		t.Errorf("run and status differ: %s", diff)
	}
	// An error is written to standard error only.
	for _, args := range [][]string{{"run", server, "--name", "one", "-o", "json"}, {"run", "http://127.0.0.1:1/mcp", "--name", "two", "-o", "json"}} {
		if stdout, stderr, code := clitest.Run(t, app, args...); code != base.ExitFailure || stdout != "" || !strings.Contains(stderr, "Error: ") {
			t.Errorf("%v: exit code %d, %q, %s", args, code, stdout, stderr)
		}
	}
}

func TestRun_FailureLeavesNothing(t *testing.T) {
	app := clitest.LivingApp(t)
	server := clitest.RemoteServer(t, nil)
	_, stderr, code := clitest.Run(t, app, "run", strings.TrimSuffix(server, "/mcp")+"/elsewhere", "--transport", "streamable-http", "--name", "one")
	if code != base.ExitFailure || !strings.HasPrefix(stderr[strings.LastIndex(stderr, "Error:"):], "Error: ") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if got := clitest.Must(t, app, "list", "-o", "json"); got != "[]\n" {
		t.Errorf("left behind: %s", got)
	}
	dirs, err := app.Dirs()
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Join(dirs.State, "workloads")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestInterrupt_DuringRun(t *testing.T) {
	app := clitest.LivingApp(t)
	asked := make(chan struct{}, 16)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(func() {
		silent.CloseClientConnections()
		silent.Close()
	})
	cmd := exec.CommandContext(t.Context(), os.Args[0], "run", silent.URL+"/mcp", "--transport", "streamable-http", "--name", "one")
	cmd.Env = append(os.Environ(), clitest.AsProgram+"=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked:
	case <-time.After(clitest.LongEnough):
		t.Error("the server received no request")
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != base.ExitInterrupted || stdout.Len() > 0 || !strings.HasSuffix(stderr.String(), "Error: interrupted\n") {
		t.Errorf("exit code %d, %q, %q", code, stdout.String(), stderr.String())
	}
	if got := clitest.Must(t, app, "list", "-o", "json"); got != "[]\n" {
		t.Errorf("left behind: %s", got)
	}
}

// writeConfig writes an exported configuration of a remote server that takes a
// secret header.
func writeConfig(t *testing.T, name, url string) string {
	t.Helper()
	spec := &workload.Spec{
		Schema: workload.Schema, Name: name, Group: "default", Source: workload.Source{Kind: "remote", Ref: url}, Transport: workload.StreamableHTTP,
		Remote: &workload.Remote{URL: url, SecretHeaders: map[string]string{"X-Api-Key": secret.Ref(name, "X_API_KEY")}},
		Proxy:  workload.Proxy{Host: "127.0.0.1", Port: 23456, Mode: "streamable-http"},
	}
	b, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name+".json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFromConfig_Secrets(t *testing.T) {
	app := clitest.LivingApp(t)
	var key atomic.Value
	server := clitest.RemoteServer(t, func(r *http.Request) { key.Store(r.Header.Get("X-Api-Key")) })
	file := writeConfig(t, "one", server)
	t.Setenv("X_API_KEY", "from the environment")

	_, stderr, code := clitest.Run(t, app, "run", "--from-config", file)
	if code != base.ExitUsage || !strings.Contains(stderr, "-e X_API_KEY=...") {
		t.Fatalf("without the secret: exit code %d, %s", code, stderr)
	}
	if _, stderr, code = clitest.Run(t, app, "run", "--from-config", file, "-e", "X_API_KEY=k", "-e", "OTHER=1"); code != base.ExitUsage || !strings.Contains(stderr, "OTHER: ") {
		t.Errorf("a variable that is none of its secrets: exit code %d, %s", code, stderr)
	}
	clitest.Must(t, app, "run", "--from-config", file, "-e", "X_API_KEY=hunter2")
	if got := key.Load(); got != "hunter2" {
		t.Errorf("the server was sent the key %q", got)
	}
	if exported := clitest.Must(t, app, "export", "one"); strings.Contains(exported, "hunter2") {
		t.Errorf("the secret is exported: %s", exported)
	}

	// The same workload under another name: its secrets are copied, with a note.
	_, stderr, code = clitest.Run(t, app, "run", "--from-config", file, "--name", "two")
	if code != base.ExitOK || !strings.Contains(stderr, "secrets taken over from workload one: X_API_KEY") {
		t.Errorf("a copy: exit code %d, %s", code, stderr)
	}
	// Another server does not receive them, whatever its file is called.
	var leaked atomic.Value // not key, which the running workloads' checks still store
	leaked.Store("")
	stranger := clitest.RemoteServer(t, func(r *http.Request) { leaked.Store(r.Header.Get("X-Api-Key")) })
	_, stderr, code = clitest.Run(t, app, "run", "--from-config", writeConfig(t, "one", stranger), "--name", "three")
	if code != base.ExitUsage || leaked.Load() != "" {
		t.Errorf("a stranger's configuration: exit code %d, key %q, %s", code, leaked.Load(), stderr)
	}
	// Nor by a reference to them.
	content, err := os.ReadFile(writeConfig(t, "four", stranger))
	if err != nil {
		t.Fatal(err)
	}
	var spec workload.Spec
	if err := json.Unmarshal(content, &spec); err != nil {
		t.Fatal(err)
	}
	spec.Remote.SecretHeaders["X-Api-Key"] = secret.Ref("one", "X_API_KEY")
	if err := workload.Validate(&spec); err == nil || !strings.Contains(err.Error(), "not a secret of workload") {
		t.Errorf("a reference to another workload's secret: %v", err)
	}

	clitest.Must(t, app, "rm", "one", "two")
	secrets, err := app.Secrets()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Get(t.Context(), secret.Ref("one", "X_API_KEY")); !errors.Is(err, secret.ErrNotFound) {
		t.Errorf("after rm the secret is still there: %v", err)
	}
}
