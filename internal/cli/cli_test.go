package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
	"github.com/toolhaven/toolhaven/internal/runflag"
	"github.com/toolhaven/toolhaven/internal/settings"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func TestUsageErrors(t *testing.T) {
	dir := t.TempDir()
	noFile := filepath.Join(dir, "none")
	badEnv := filepath.Join(dir, "bad.env")
	if err := os.WriteFile(badEnv, []byte("A=1\nnonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"no server":                  {[]string{"run"}, []string{"name a server"}},
		"two servers":                {[]string{"run", "a", "b"}, []string{`unexpected argument "b"`, "after --"}},
		"unknown flag":               {[]string{"run", "--permission-profil", "x"}, []string{"unknown flag --permission-profil", "did you mean --permission-profile?"}},
		"unknown command":            {[]string{"rnu"}, []string{`no command "thv rnu"`, "did you mean run?"}},
		"unknown subcommand":         {[]string{"group", "creat"}, []string{"did you mean create?"}},
		"bad -e":                     {[]string{"run", "-e", "1A=x", "x"}, []string{"-e", "1A", "KEY=VALUE"}},
		"bad -v":                     {[]string{"run", "-v", "x", "x"}, []string{"-v x", "host-path:container-path"}},
		"-v of nothing":              {[]string{"run", "-v", noFile + ":/a", "x"}, []string{noFile, "no such file"}},
		"-v without a value":         {[]string{"run", "-v"}, []string{"-v needs a value", "host-path:container-path"}},
		"-v takes the server":        {[]string{"run", "-v", "npx://x"}, []string{"name a server", "--volume has no value of its own and took npx://x"}},
		"a named volume":             {[]string{"run", "-v", "mydata:/data", "x:1"}, []string{"named volumes are not supported"}},
		"-p with a name":             {[]string{"run", "-p", "localhost:80:81", "x:1"}, []string{`"localhost" is not an IP address`, "ADDRESS:hostPort:containerPort"}},
		"-p with a protocol":         {[]string{"run", "-p", "80:81/udp", "x:1"}, []string{"a protocol cannot be chosen", "write 80:81"}},
		"-p with a range":            {[]string{"run", "-p", "80-81:80-81", "x:1"}, []string{"ranges are not supported"}},
		"a number that is none":      {[]string{"run", "--proxy-port", "abc", "x"}, []string{`--proxy-port "abc": it is not a whole number; see`}},
		"a duration that is none":    {[]string{"run", "--session-ttl", "soon", "x"}, []string{`--session-ttl "soon": it is not a duration`}},
		"help on an unknown command": {[]string{"help", "rnu"}, []string{`no command "thv rnu"`, "did you mean run?"}},
		"an empty registry":          {[]string{"config", "set-registry", ""}, []string{"unset-registry"}},
		"bad -p":                     {[]string{"run", "-p", "x:y", "x"}, []string{"-p x:y", "not a port"}},
		"bad -l":                     {[]string{"run", "-l", "x", "x"}, []string{"-l x", "key=value"}},
		"a label of ours":            {[]string{"run", "-l", "dev.toolhaven.x=1", "x"}, []string{"are ours"}},
		"several faults":             {[]string{"run", "-e", "=", "-p", "q", "--transport", "pigeon", "x"}, []string{"-e", "-p q", "pigeon"}},
		"env file that is not there": {[]string{"run", "--env-file", noFile, "x"}, []string{noFile}},
		"env file with a bad line":   {[]string{"run", "--env-file", badEnv, "x"}, []string{"bad.env", "line 2"}},
		"profile that is not there":  {[]string{"run", "--permission-profile", noFile, "x"}, []string{"permission profile", "none"}},
		"faults of several kinds": {[]string{"run", "--endpoint-prefix", "x/", "--host", "a/b", "--stateless", "--transport", "stdio", "-v", dir + ":/a", "-v", dir + ":/a/", "--network", "a b", "x"},
			[]string{"endpoint prefix", `host "a/b"`, "stateless", "/a is mounted twice", `network "a b"`}},
		"a mount over the guest":     {[]string{"run", "-v", dir + ":/.thv", "x"}, []string{"/.thv"}},
		"a target of a stdio server": {[]string{"run", "--transport", "stdio", "--target-port", "1", "--target-host", "x", "x"}, []string{"target port", "target host"}},
		"the server's own port":      {[]string{"run", "--target-port", "8080", "-p", "8080", "x"}, []string{"through the gateway only"}},
		"an empty name":              {[]string{"run", "--name", "", "x"}, []string{`name ""`}},
		"a name that is a path":      {[]string{"rm", "../../x"}, []string{`name "../../x"`}},
		"a name that is empty":       {[]string{"rm", ""}, []string{`name ""`}},
		"logs of a path":             {[]string{"logs", "../x"}, []string{`name "../x"`}},
		"export of a path":           {[]string{"export", "../x"}, []string{`name "../x"`}},
		"mcp of neither":             {[]string{"mcp", "tools", "ftp://x"}, []string{"neither a workload's name nor"}},
		"mcp call with bad JSON":     {[]string{"mcp", "call", "a", "t", "--json", "[1]"}, []string{"--json"}},
		"mcp call with a bad --arg":  {[]string{"mcp", "call", "a", "t", "--arg", "x"}, []string{"--arg x", "NAME=VALUE"}},
		"list of all and running":    {[]string{"list", "-a", "--running"}, []string{"exclude each other"}},
		"no such verification":       {[]string{"run", "--image-verification", "always", "x:1"}, []string{`image verification "always"`, "warn, enabled or disabled"}},
		"verification without value": {[]string{"run", "--image-verification", "", "x:1"}, []string{"--image-verification has no value"}},
		"verification of a remote":   {[]string{"run", "--image-verification", "enabled", "http://127.0.0.1:1"}, []string{"--image-verification is for servers that run here"}},
		"bad port":                   {[]string{"run", "--proxy-port", "70000", "x"}, []string{"70000"}},
		"bad name":                   {[]string{"run", "--name", "../x", "http://127.0.0.1:1"}, []string{"../x", "lower-case"}},
		"from-config and more":       {[]string{"run", "--from-config", noFile, "-l", "a=1", "--host", "::1", "--", "x"}, []string{"--from-config", "--host, --label, arguments after --"}},
		"from-config and a server":   {[]string{"run", "--from-config", noFile, "x"}, []string{"one too many"}},
		"from-config of nothing":     {[]string{"run", "--from-config", noFile}, []string{noFile}},
		"a volume for a remote":      {[]string{"run", "-v", dir + ":/a", "http://127.0.0.1:1"}, []string{"--volume", "remote"}},
		"a base image for a remote":  {[]string{"run", "--runtime-image", "a", "http://127.0.0.1:1"}, []string{"--runtime-image", "packages"}},
		"stop of nothing":            {[]string{"stop"}, []string{"name a workload"}},
		"stop of names and all":      {[]string{"stop", "a", "--all"}, []string{"exclude each other"}},
		"bad output format":          {[]string{"list", "-o", "xml"}, []string{"table or json"}},
		"negative tail":              {[]string{"logs", "a", "--tail", "-1"}, []string{"--tail"}},
		"unknown setting":            {[]string{"config", "set", "regstry", "x"}, []string{"no setting", "registry"}},
		"registry that is not there": {[]string{"config", "set-registry", noFile}, []string{noFile}},
	} {
		t.Run(name, func(t *testing.T) {
			_, stderr, code := clitest.Run(t, clitest.App(t), c.args...)
			if code != base.ExitUsage {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q lacks %q", stderr, want)
				}
			}
		})
	}
}

func TestExitCode_NotFound(t *testing.T) {
	for _, args := range [][]string{
		{"stop", "a"}, {"start", "a"}, {"restart", "a"}, {"rm", "a"}, {"status", "a"}, {"logs", "a"}, {"export", "a"},
		{"stop", "--group", "g"}, {"list", "--group", "g"}, {"group", "rm", "g"}, {"mcp", "tools", "a"},
		{"run", "--group", "g", "http://127.0.0.1:1"},
	} {
		if _, stderr, code := clitest.Run(t, clitest.App(t), args...); code != base.ExitNotFound || !strings.Contains(stderr, "Error: no such") {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

// One cause is reported once, with what helps.
func TestWithoutHOME(t *testing.T) {
	app := func() *base.App { return &base.App{Env: func(string) string { return "" }} }
	for _, args := range [][]string{{"list"}, {"run", "x"}, {"registry", "list"}, {"mcp", "tools", "x"}, {"config", "list"}} {
		if stdout, stderr, code := clitest.Run(t, app(), args...); code != base.ExitFailure || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "there is no place for configuration and state; set ") {
			t.Errorf("%v: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
	if stdout, _, code := clitest.Run(t, app(), "doctor"); code != base.ExitFailure || strings.Count(stdout, "there is no place") != 1 || strings.Contains(stdout, "set-registry") {
		t.Errorf("doctor: exit code %d, %s", code, stdout)
	}
}

// A configuration that cannot be read has one error and one hint in every command.
func TestLostConfiguration(t *testing.T) {
	app := clitest.App(t)
	keep(t, app, inContainer("torn"), workload.Stopped, "")
	dirs, err := app.Dirs()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dirs.State, "workloads", "torn", "spec.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"start", "torn"}, {"restart", "torn"}, {"export", "torn"}, {"mcp", "tools", "torn"}, {"run", "img:1", "--name", "torn"}} {
		stdout, stderr, code := clitest.Run(t, app, args...)
		if code != base.ExitFailure || stdout != "" || strings.Count(stderr, "; ") != strings.Count(stderr, "is failed; ")+1 || !strings.HasSuffix(stderr, "remove it with `thv rm torn`\n") {
			t.Errorf("%v: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

func TestSetRegistryChecksOnce(t *testing.T) {
	requests, status := 0, http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, `{"servers": [], "metadata": {"count": 0}}`)
	}))
	defer server.Close()
	if _, stderr, code := clitest.Run(t, clitest.App(t), "config", "set-registry", server.URL); code != base.ExitOK || stderr != "" || requests != 1 {
		t.Errorf("a registry that works: exit code %d, %q, %d requests", code, stderr, requests)
	}
	status = http.StatusNotFound
	app := clitest.App(t)
	if _, stderr, code := clitest.Run(t, app, "config", "set-registry", server.URL); code != base.ExitOK || !strings.HasPrefix(stderr, "Note: the setting is stored, but the registry cannot be used now: ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("what is no registry: exit code %d, %q", code, stderr)
	}
	if got := clitest.Must(t, app, "config", "get", "registry"); got != server.URL+"\n" {
		t.Errorf("the setting is %q", got)
	}
}

func TestExitCode_NoEngine(t *testing.T) {
	_, stderr, code := clitest.Run(t, clitest.App(t), "run", "ghcr.io/example/server:1")
	if code != base.ExitNoEngine || !strings.Contains(stderr, "none.sock") || !strings.Contains(stderr, "no such socket") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	app := clitest.App(t)
	stdout, _, code := clitest.Run(t, app, "doctor")
	if code == 0 || !strings.Contains(stdout, "none.sock") {
		t.Errorf("doctor: exit code %d: %s", code, stdout)
	}
	dirs, _ := app.Dirs()
	if left, _ := os.ReadDir(filepath.Join(dirs.State, "workloads")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestGroupCommands(t *testing.T) {
	app := clitest.App(t)
	if _, stderr, code := clitest.Run(t, app, "group", "create", "work"); code != 0 {
		t.Fatal(stderr)
	}
	if _, _, code := clitest.Run(t, app, "group", "create", "work"); code != base.ExitFailure {
		t.Errorf("a second create: exit code %d", code)
	}
	stdout, _, _ := clitest.Run(t, app, "group", "list")
	if stdout != "default\t0\nwork\t0\n" {
		t.Errorf("list: %q", stdout)
	}
	stdout, _, _ = clitest.Run(t, app, "group", "list", "-o", "json")
	var groups []struct{ Name string }
	if err := json.Unmarshal([]byte(stdout), &groups); err != nil || len(groups) != 2 {
		t.Errorf("list as JSON: %v, %s", err, stdout)
	}
	if _, stderr, code := clitest.Run(t, app, "group", "rm", "work"); code != 0 {
		t.Error(stderr)
	}
}

func TestExport_RoundTrip(t *testing.T) {
	app := clitest.App(t)
	store, err := app.Store()
	if err != nil {
		t.Fatal(err)
	}
	spec := &workload.Spec{
		Schema: workload.Schema, Name: "a", Group: "default", Source: workload.Source{Kind: "image", Ref: "i:1"}, Image: "i:1",
		Env: map[string]string{"A": "1"}, SecretEnv: map[string]string{"TOKEN": "workload/a/TOKEN"}, Transport: workload.Stdio,
		Proxy: workload.Proxy{Host: "127.0.0.1", Port: 20001, Mode: "streamable-http", SessionTTL: workload.Duration(5e9)},
	}
	if err := store.Create(spec); err != nil {
		t.Fatal(err)
	}
	secrets, _ := app.Secrets()
	if err := secrets.PutAll(t.Context(), "a", map[string]string{"TOKEN": "hunter2"}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "a.json")
	if _, stderr, code := clitest.Run(t, app, "export", "a", file); code != 0 {
		t.Fatal(stderr)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), "hunter2") {
		t.Error("the export holds a secret's value")
	}
	if info, _ := os.Stat(file); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %s", info.Mode())
	}
	var got workload.Spec
	if err := runflag.DecodeStrict(content, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(spec, &got); diff != "" {
		t.Errorf("read back:\n%s", diff)
	}
}

func TestEveryCommandHasAnExample(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Runnable() && !c.Hidden && c.Example == "" && c.Name() != "help" && c.Name() != "completion" && c.Parent() != nil && c.Parent().Name() != "completion" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(cli.Root(clitest.App(t)))
}

func TestHelpListsExitCodes(t *testing.T) {
	if stdout, _, _ := clitest.Run(t, clitest.App(t), "help", "exit-codes"); strings.TrimSpace(stdout) != base.ExitCodesHelp {
		t.Errorf("exit codes: %q", stdout)
	}
}

func TestExitCodesAreThoseOfREADME(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| (.+) \|$`).FindAllStringSubmatch(string(readme), -1)
	if len(rows) != 6 {
		t.Fatalf("README has %d exit codes", len(rows))
	}
	for _, row := range rows {
		if line := fmt.Sprintf("\n  %-3s  %s\n", row[1], row[2]); !strings.Contains(base.ExitCodesHelp, line) {
			t.Errorf("the help lacks %q", line)
		}
	}
}

func TestConfigCommands(t *testing.T) {
	app := clitest.App(t)
	if _, stderr, code := clitest.Run(t, app, "config", "set-registry", "https://r.example/registry/default"); code != 0 {
		t.Fatal(stderr)
	}
	if out, _, _ := clitest.Run(t, app, "config", "get", "registry"); out != "https://r.example/registry/default\n" {
		t.Errorf("got %q", out)
	}
	if out, _, _ := clitest.Run(t, app, "config", "list", "-o", "json"); !strings.Contains(out, `"registry": "https://r.example/registry/default"`) || strings.Count(out, ":") < len(settings.Keys()) {
		t.Errorf("list: %s", out)
	}
	if _, _, code := clitest.Run(t, app, "config", "unset-registry"); code != 0 {
		t.Error("unset failed")
	}
	if out, _, _ := clitest.Run(t, app, "config", "get", "registry"); out != "\n" {
		t.Errorf("after unset: %q", out)
	}
}
