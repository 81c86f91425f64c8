package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/settings"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// thv runs a command line in a place of its own, without an engine.
func thv(t *testing.T, a *App, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut bytes.Buffer
	a.Out, a.Err, a.In, a.JSON = &out, &errOut, strings.NewReader(""), false
	root := Root(a)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	var reported *errReported
	if err != nil && !errors.As(err, &reported) {
		errOut.WriteString(sentence(err) + "\n")
	}
	return out.String(), errOut.String(), exitCode(err)
}

func testApp(t *testing.T) *App {
	t.Helper()
	dir := t.TempDir()
	env := map[string]string{
		"HOME": dir, "XDG_STATE_HOME": dir + "/state", "XDG_CONFIG_HOME": dir + "/config", "XDG_RUNTIME_DIR": dir + "/run",
		"THV_ENGINE": "unix://" + dir + "/none.sock",
	}
	return &App{Env: func(k string) string { return env[k] }}
}

// The specification's table of flags is the contract.
func TestRunHasTheFlagsOfTheSpecification(t *testing.T) {
	content, err := os.ReadFile("testdata/run-flags.tsv")
	if err != nil {
		t.Fatal(err)
	}
	cmd := newRun(testApp(t))
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")[1:]
	if len(lines) != 85 {
		t.Fatalf("the table has %d flags", len(lines))
	}
	types := map[string][]string{
		"string": {"string"}, "bool": {"bool"}, "int": {"int"}, "float": {"float64"}, "duration": {"duration"},
		"string[]": {"stringArray", "stringSlice"}, "strings": {"stringSlice"},
	}
	// Values of these may hold commas; the others are comma-separated too.
	whole := []string{"env", "secret", "label", "volume", "publish", "webhook-config", "remote-forward-headers", "remote-forward-headers-secret", "otel-headers"}
	// Defaults that the table gives in words.
	words := map[string]string{
		"auto-generated from image": "", "registry's profile, or `network` if the registry gives none": "", "2h when zero or unset": "0s",
		"OIDC: openid,profile,email": "[]", "replaces Authorization header": "", "<tool>-<workload-name>": "", "openid": "[openid]",
	}
	for _, line := range lines {
		f := strings.Split(line, "\t")
		name, short, kind, def := strings.TrimPrefix(f[1], "--"), strings.TrimPrefix(f[2], "-"), f[3], f[4]
		flag := cmd.Flags().Lookup(name)
		if flag == nil {
			t.Errorf("--%s is missing", name)
			continue
		}
		if flag.Shorthand != short {
			t.Errorf("--%s has the short form %q, want %q", name, flag.Shorthand, short)
		}
		if !strings.Contains(strings.Join(types[kind], " "), flag.Value.Type()) {
			t.Errorf("--%s is of type %s, want %s", name, flag.Value.Type(), kind)
		}
		want, inWords := words[def]
		switch {
		case inWords:
		case def == "-" && (kind == "string[]" || kind == "strings"):
			want = "[]"
		case def == "-" && kind == "int":
			want = "0"
		case def == "-":
		default:
			want = def
		}
		if flag.DefValue != want {
			t.Errorf("--%s has the default %q, want %q", name, flag.DefValue, want)
		}
		if kind == "string[]" && slices.Contains(whole, name) != (flag.Value.Type() == "stringArray") {
			t.Errorf("--%s is a %s", name, flag.Value.Type())
		}
		if meaning := strings.ReplaceAll(f[5], "`", ""); !strings.HasPrefix(flag.Usage, meaning) {
			t.Errorf("--%s says %q, want %q", name, flag.Usage, meaning)
		}
	}
	if testFlag := Root(testApp(t)).PersistentFlags().Lookup("debug"); testFlag == nil {
		t.Error("--debug is missing")
	}
}

func TestAFlagWhoseWorkIsToComeIsNeverIgnored(t *testing.T) {
	for _, f := range laterFlags() {
		value := map[string]string{"bool": "true", "int": "1", "float": "0.5", "duration": "1s"}[f.kind]
		if value == "" {
			value = "x"
		}
		_, stderr, code := thv(t, testApp(t), "run", "--"+f.name+"="+value, "http://127.0.0.1:1")
		if code != exitUsage || !strings.Contains(stderr, "--"+f.name+" is not available") {
			t.Errorf("--%s: exit code %d, %s", f.name, code, stderr)
		}
	}
}

func TestBadCommandLinesSayWhatIsWrong(t *testing.T) {
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
		"unknown flag":               {[]string{"run", "--isolate-netwrok", "x"}, []string{"unknown flag --isolate-netwrok", "did you mean --isolate-network?"}},
		"unknown command":            {[]string{"rnu"}, []string{`no command "thv rnu"`, "did you mean run?"}},
		"unknown subcommand":         {[]string{"group", "creat"}, []string{"did you mean create?"}},
		"bad -e":                     {[]string{"run", "-e", "1A=x", "x"}, []string{"-e", "1A", "KEY=VALUE"}},
		"bad -v":                     {[]string{"run", "-v", "x", "x"}, []string{"-v x", "host-path:container-path"}},
		"-v of nothing":              {[]string{"run", "-v", noFile + ":/a", "x"}, []string{noFile, "no such file"}},
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
		"verification asked for":     {[]string{"run", "--image-verification", "enabled", "x"}, []string{"--image-verification is not available", "--image-verification=disabled"}},
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
			_, stderr, code := thv(t, testApp(t), c.args...)
			if code != exitUsage {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q does not say %q", stderr, want)
				}
			}
		})
	}
}

func TestWhatIsNotThereHasItsExitCode(t *testing.T) {
	for _, args := range [][]string{
		{"stop", "a"}, {"start", "a"}, {"restart", "a"}, {"rm", "a"}, {"status", "a"}, {"logs", "a"}, {"export", "a"},
		{"stop", "--group", "g"}, {"list", "--group", "g"}, {"group", "rm", "g"}, {"mcp", "tools", "a"},
		{"run", "--group", "g", "http://127.0.0.1:1"},
	} {
		if _, stderr, code := thv(t, testApp(t), args...); code != exitNotFound || !strings.Contains(stderr, "Error: no such") {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

func TestWithoutAnEngineTheMessageListsWhatWasTried(t *testing.T) {
	_, stderr, code := thv(t, testApp(t), "run", "ghcr.io/example/server:1")
	if code != exitNoEngine || !strings.Contains(stderr, "none.sock") || !strings.Contains(stderr, "no such socket") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	app := testApp(t)
	stdout, _, code := thv(t, app, "doctor")
	if code == 0 || !strings.Contains(stdout, "none.sock") {
		t.Errorf("doctor: exit code %d: %s", code, stdout)
	}
	dirs, _ := app.Dirs()
	if left, _ := os.ReadDir(filepath.Join(dirs.State, "workloads")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestGroupsByCommand(t *testing.T) {
	app := testApp(t)
	if _, stderr, code := thv(t, app, "group", "create", "work"); code != 0 {
		t.Fatal(stderr)
	}
	if _, _, code := thv(t, app, "group", "create", "work"); code != exitFailure {
		t.Errorf("a second create: exit code %d", code)
	}
	stdout, _, _ := thv(t, app, "group", "list")
	if stdout != "default\t0\nwork\t0\n" {
		t.Errorf("list: %q", stdout)
	}
	stdout, _, _ = thv(t, app, "group", "list", "-o", "json")
	var groups []struct{ Name string }
	if err := json.Unmarshal([]byte(stdout), &groups); err != nil || len(groups) != 2 {
		t.Errorf("list as JSON: %v, %s", err, stdout)
	}
	if _, stderr, code := thv(t, app, "group", "rm", "work"); code != 0 {
		t.Error(stderr)
	}
}

func TestAnExportIsReadBack(t *testing.T) {
	app := testApp(t)
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
	if err := secrets.Put("a", map[string]string{"TOKEN": "hunter2"}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "a.json")
	if _, stderr, code := thv(t, app, "export", "a", file); code != 0 {
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
	got, _, err := decodeExport(content)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(spec)
	b, _ := json.Marshal(got)
	if string(a) != string(b) {
		t.Errorf("read back:\n%s\n%s", a, b)
	}
	for change, want := range map[[2]string]string{
		{`"image": "i:1"`, `"imgae": "i:1"`}:             `did you mean "image"?`,
		{"toolhaven.dev/run/v1", "toolhaven.dev/run/v9"}: "run/v9",
		{`"port": 20001`, `"port": "x"`}:                 "line",
		{`"name": "a",`, `"name": "a", "name": "b",`}:    "twice",
	} {
		if _, _, err := decodeExport([]byte(strings.Replace(string(content), change[0], change[1], 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", change, err)
		}
	}
}

func TestToolHivesExportIsReadAsFarAsItCanBeHonoured(t *testing.T) {
	good := `{"schema_version":"v0.1.0","name":"fetch","image":"ghcr.io/x/fetch:1","cmd_args":["-v"],"transport":"streamable-http",
	"host":"127.0.0.1","port":12345,"target_port":8080,"env_vars":{"A":"1","MCP_PORT":"8080"},"proxy_mode":"streamable-http","group":"default",
	"container_labels":{"toolhive":"true","team":"x"},"permission_profile":{"network":{"outbound":{"insecure_allow_all":true}}},
	"oidc_config":null,"isolate_network":false,"middleware_configs":[{"type":"x"}]}`
	s, _, err := decodeExport([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if err := workload.Validate(s); err != nil {
		t.Error(err)
	}
	if s.Proxy.Port != 12345 || s.TargetPort != 8080 || s.Env["A"] != "1" || s.Env["MCP_PORT"] != "" || s.Container.Labels["team"] != "x" || len(s.Container.Labels) != 1 {
		t.Errorf("%+v", s)
	}
	notices := func() string {
		_, n, err := decodeExport([]byte(strings.Replace(good, `"oidc_config":null`, `"volumes":["`+t.TempDir()+`:/a"],"ignore_config":{"LoadGlobal":true},"secrets":["gh,target=GITHUB_TOKEN"]`, 1)))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(n, "\n")
	}()
	if !strings.Contains(notices, ".thvignore") || !strings.Contains(notices, "middleware_configs are not used (x)") {
		t.Errorf("notices: %s", notices)
	}
	for change, want := range map[string]string{
		`"isolate_network":true`: "cannot do: isolate_network", `"tools_filtr":["a"]`: `line 4: unknown key "tools_filtr"; did you mean "tools_filter"?`,
		`"secrets":["x"]`: "target=VARIABLE", `"publish":["x"]`: "not a port",
	} {
		_, _, err := decodeExport([]byte(strings.Replace(good, `"oidc_config":null,"isolate_network":false`, change, 1)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", change, err)
		}
	}
	bad := strings.Replace(good, `"oidc_config":null`, `"oidc_config":{"Issuer":"https://x"},"authz_config":{"a":1}`, 1)
	if _, _, err := decodeExport([]byte(bad)); err == nil || !strings.Contains(err.Error(), "oidc_config, authz_config") {
		t.Errorf("got %v", err)
	}
	if _, _, err := decodeExport([]byte(strings.Replace(good, "v0.1.0", "v9", 1))); err == nil {
		t.Error("another version was read")
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
	walk(Root(testApp(t)))
}

func TestExitCodesAreTold(t *testing.T) {
	for err, want := range map[error]int{
		nil: exitOK, errors.New("x"): exitFailure, usage("x"): exitUsage, container.ErrUnavailable: exitNoEngine,
		workload.ErrNotFound: exitNotFound, &errReported{workload.ErrNotFound}: exitNotFound,
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

func TestSettingsByCommand(t *testing.T) {
	app := testApp(t)
	if _, stderr, code := thv(t, app, "config", "set-registry", "https://r.example/registry/default"); code != 0 {
		t.Fatal(stderr)
	}
	if out, _, _ := thv(t, app, "config", "get", "registry"); out != "https://r.example/registry/default\n" {
		t.Errorf("got %q", out)
	}
	if out, _, _ := thv(t, app, "config", "list", "-o", "json"); !strings.Contains(out, `"registry": "https://r.example/registry/default"`) || strings.Count(out, ":") < len(settings.Keys()) {
		t.Errorf("list: %s", out)
	}
	if _, _, code := thv(t, app, "config", "unset-registry"); code != 0 {
		t.Error("unset failed")
	}
	if out, _, _ := thv(t, app, "config", "get", "registry"); out != "\n" {
		t.Errorf("after unset: %q", out)
	}
}

func TestHelpTellsWhatIsNotThereYetApart(t *testing.T) {
	stdout, stderr, code := thv(t, testApp(t), "run", "--help")
	works, refused, ok := strings.Cut(stdout, "Flags that this version refuses")
	if code != exitOK || !ok || stderr != "" {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	later := map[string]bool{}
	for _, f := range laterFlags() {
		later[f.name] = true
	}
	newRun(testApp(t)).Flags().VisitAll(func(f *pflag.Flag) {
		line := "      --" + f.Name + " "
		if f.Shorthand != "" {
			line = "  -" + f.Shorthand + ", --" + f.Name + " "
		}
		if strings.Contains(refused, line) != later[f.Name] || strings.Contains(works, line) == later[f.Name] {
			t.Errorf("--%s is in the wrong place", f.Name)
		}
	})
	for _, want := range []string{"thv run npx://", "Global flags:", "--debug"} {
		if !strings.Contains(works, want) {
			t.Errorf("the help does not say %q", want)
		}
	}
	if stdout, _, _ := thv(t, testApp(t), "help", "exit-codes"); strings.TrimSpace(stdout) != exitCodesHelp {
		t.Errorf("exit codes: %q", stdout)
	}
}
