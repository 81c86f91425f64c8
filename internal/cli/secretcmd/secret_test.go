package secretcmd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/cli"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
)

// session is a command line with variables and directories of its own. Each command has a
// new App, as a process has.
type session struct {
	t   *testing.T
	dir string
	env map[string]string
}

func newSession(t *testing.T) *session {
	dir := t.TempDir()
	return &session{t, dir, map[string]string{
		"HOME": dir, "XDG_STATE_HOME": dir + "/state", "XDG_CONFIG_HOME": dir + "/config", "XDG_RUNTIME_DIR": dir + "/run",
		"THV_ENGINE": "unix://" + dir + "/none.sock",
	}}
}

func (s *session) run(stdin string, args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	var out, errOut bytes.Buffer
	app := &base.App{In: strings.NewReader(stdin), Out: &out, Err: &errOut, Env: func(k string) string { return s.env[k] }}
	root := cli.Root(app)
	root.SetArgs(append([]string{"secret"}, args...))
	err := root.ExecuteContext(s.t.Context())
	var reported *base.Reported
	if err != nil && !errors.As(err, &reported) {
		errOut.WriteString(base.Sentence(err) + "\n")
	}
	return out.String(), errOut.String(), base.ExitCode(err)
}

func (s *session) must(stdin string, args ...string) string {
	s.t.Helper()
	stdout, stderr, code := s.run(stdin, args...)
	if code != 0 {
		s.t.Fatalf("secret %v: exit code %d, %s", args, code, stderr)
	}
	return stdout
}

func (s *session) fails(code int, want string, args ...string) {
	s.t.Helper()
	stdout, stderr, got := s.run("hunter2\n", args...)
	if got != code || !strings.Contains(stderr, want) || stdout != "" || strings.Contains(stderr, "hunter2") || strings.Count(stderr, "Error") != 1 {
		s.t.Errorf("secret %v: exit code %d, %s%s; want %d, %s", args, got, stdout, stderr, code, want)
	}
}

func (s *session) file(name, content string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func TestSecret(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	if got := s.must("", "list", "-o", "json"); got != "[]\n" {
		t.Errorf("list of nothing: %s", got)
	}
	_, stderr, code := s.run("hunter2\n", "set", "github")
	if code != 0 || !strings.Contains(stderr, "github is stored by the provider file ("+s.dir+"/state/thv/secrets/store)") || !strings.Contains(stderr, "not from programs that run as you") {
		t.Errorf("set: exit code %d, %s", code, stderr)
	}
	s.must("two\nlines\r\n", "set", "multi", "-o", "json")
	for name, want := range map[string]string{"github": "hunter2\n", "multi": "two\nlines\n"} {
		if got := s.must("", "get", name); got != want {
			t.Errorf("get %s: %q", name, got)
		}
	}
	if got := s.must("", "list"); got != "github\nmulti\n" {
		t.Errorf("list: %q", got)
	}
	s.fails(base.ExitNotFound, `no such secret: "githu" (provider file); did you mean "github"?`, "get", "githu")
	s.fails(base.ExitUsage, "a value is not given as an argument", "set", "a", "hunter2")
	s.fails(base.ExitFailure, "is not the name of a secret", "set", "workload/w/KEY")
	s.fails(base.ExitFailure, "is not the name of a secret", "get", "workload/w/KEY")
	s.fails(base.ExitUsage, "is not the name of a secret", "set", "a,b")
	if _, stderr, code := s.run("\n", "set", "empty"); code != base.ExitUsage || !strings.Contains(stderr, "the value is empty") {
		t.Errorf("an empty value: %d, %s", code, stderr)
	}
	s.must("", "delete", "multi")
	s.fails(base.ExitNotFound, `no such secret: "multi"`, "delete", "multi")
	if got := s.must("", "get", "github", "-o", "json"); !strings.Contains(got, `"value": "hunter2"`) {
		t.Errorf("get: %s", got)
	}
}

func TestList_ShowsWhatThvKeepsOnRequest(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.must("x", "set", "github")
	app := &base.App{Env: func(k string) string { return s.env[k] }}
	store, err := app.Secrets()
	if err != nil {
		t.Fatal(err)
	}
	if err := store.PutAll(t.Context(), "w", map[string]string{"KEY": "hunter2"}); err != nil {
		t.Fatal(err)
	}
	if got := s.must("", "list"); got != "github\n" {
		t.Errorf("list: %q", got)
	}
	if got := s.must("", "list", "--all"); got != "github\nworkload/w/KEY\n" {
		t.Errorf("list --all: %q", got)
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.must("old", "set", "B")
	file := s.file("env", "A=1\nexport B='2'\n# C=3\nbad line\nD=\n")
	stdout, stderr, code := s.run("", "import", file)
	if code != 0 || stdout != "A\n" || !strings.Contains(stderr, "skipped B: it has another value; --replace replaces it") ||
		!strings.Contains(stderr, "skipped D: the value is empty") || !strings.Contains(stderr, "skipped line 4: it is not KEY=VALUE") || !strings.Contains(stderr, "1 stored, 3 skipped") {
		t.Errorf("exit code %d, %q, %s", code, stdout, stderr)
	}
	var result struct {
		Imported []string
		Skipped  []struct{ Name, Reason string }
	}
	if err := json.Unmarshal([]byte(s.must(`{"A":"1","B":"2","n":3,"a b":"x"}`, "import", "-", "--replace", "-o", "json")), &result); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"B"}, result.Imported); diff != "" || len(result.Skipped) != 3 {
		t.Errorf("%s %v", diff, result)
	}
	if got := s.must("", "get", "B"); got != "2\n" {
		t.Errorf("B is %q", got)
	}
	s.fails(base.ExitUsage, "it is not a JSON object", "import", s.file("bad.json", `{"a":"hunter2`))
	s.fails(base.ExitUsage, "give one file", "import")
	s.fails(base.ExitUsage, "no such file", "import", "/nowhere")
}

func TestImport_FromVariables(t *testing.T) {
	s := newSession(t)
	t.Setenv("TOOLHIVE_SECRET_github", "hunter2")
	if got := s.must("", "import", "--env-prefix", "TOOLHIVE_SECRET_"); got != "github\n" {
		t.Errorf("import: %q", got)
	}
	if got := s.must("", "get", "github"); got != "hunter2\n" {
		t.Errorf("get: %q", got)
	}
}

func TestProvider_Encrypted(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.must("hunter2", "set", "github")
	right, wrong, other := s.file("right", "correct horse\n"), s.file("wrong", "battery\n"), s.file("other", "staple\n")
	s.fails(base.ExitFailure, "its password is needed; set THV_SECRETS_PASSWORD_FILE", "provider", "encrypted")
	_, stderr, code := s.run("", "provider", "encrypted", "--new-password-file", right)
	if code != 0 || !strings.Contains(stderr, "encrypted with your password") {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	content, err := os.ReadFile(s.dir + "/state/thv/secrets/store")
	if err != nil || bytes.Contains(content, []byte("github")) {
		t.Errorf("the file: %s, %v", content, err)
	}
	s.fails(base.ExitFailure, "the secrets store is locked: its password is needed", "get", "github")
	s.fails(base.ExitFailure, "the password is wrong: that in "+wrong+" does not open", "get", "github", "--password-file", wrong)
	if got := s.must("", "get", "github", "--password-file", right); got != "hunter2\n" {
		t.Errorf("get: %q", got)
	}
	// The provider is shown without the password.
	if got := s.must("", "provider"); !strings.HasPrefix(got, "encrypted\tread and write\t") {
		t.Errorf("provider: %q", got)
	}
	// Another password.
	s.must("", "provider", "encrypted", "--password-file", right, "--new-password-file", other)
	s.env[base.EnvSecretsPassword] = "correct horse"
	s.fails(base.ExitFailure, "that in THV_SECRETS_PASSWORD does not open", "get", "github")
	s.env[base.EnvSecretsPassword] = "staple"
	if got := s.must("", "get", "github"); got != "hunter2\n" {
		t.Errorf("get: %q", got)
	}
	s.must("", "provider", "file")
	delete(s.env, base.EnvSecretsPassword)
	if got := s.must("", "get", "github"); got != "hunter2\n" {
		t.Errorf("get: %q", got)
	}
}

func TestProvider_ReadOnly(t *testing.T) {
	s := newSession(t)
	s.must("hunter2", "set", "github")
	t.Setenv("THV_SECRET_gitlab", "from the environment")
	_, stderr, code := s.run("", "provider", "environment")
	if code != 0 || !strings.Contains(stderr, "kept where they were, and not used by this provider: github") {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	if got := s.must("", "get", "gitlab"); got != "from the environment\n" {
		t.Errorf("get: %q", got)
	}
	s.fails(base.ExitNotFound, `no such secret: "github" (provider environment); did you mean "gitlab"?`, "get", "github")
	s.fails(base.ExitFailure, "read only", "set", "x")
	s.fails(base.ExitFailure, "read only", "delete", "gitlab")
	s.must("", "provider", "command", "--", "sh", "-c", `echo "value of $1"`, "sh")
	if got := s.must("", "get", "a b"); got != "value of a b\n" {
		t.Errorf("get: %q", got)
	}
	s.fails(base.ExitFailure, "cannot list", "list")
	s.must("", "provider", "file")
	if got := s.must("", "get", "github"); got != "hunter2\n" {
		t.Errorf("nothing is lost: %q", got)
	}
	s.env["THV_SECRETS_PROVIDER"] = "environment"
	if got := s.must("", "list"); got != "gitlab\n" {
		t.Errorf("list: %q", got)
	}
	s.fails(base.ExitUsage, "unset it first", "provider", "file")
	s.env["THV_SECRETS_PROVIDER"] = "vaul"
	s.fails(base.ExitFailure, `there is no provider of secrets "vaul"; did you mean "vault"?`, "list")
}

func TestProvider_BadArguments(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for args, want := range map[string]string{
		"filee": `there is no provider "filee"; did you mean "file"?`, "command": "give the command after --", "file -- x": "for the provider command",
		"file --vault-mount x": "are for the provider vault", "file --new-password-file x": "is for the provider encrypted", "file vault": "give one provider",
	} {
		s.fails(base.ExitUsage, want, append([]string{"provider"}, strings.Fields(args)...)...)
	}
	s.fails(base.ExitFailure, "the address of Vault is missing", "provider", "vault")
	s.fails(base.ExitFailure, "no session bus", "provider", "keyring")
	clitest.Must(t, clitest.App(t), "secret", "--help")
}
