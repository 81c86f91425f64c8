//go:build cluster && linux

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/test/idp"
)

// The section "From zero to a logged-in call" of docs/kubernetes.md, as it is written there, but
// for the image and for the provider, which is not GitHub: its commands, its file and what it
// shows.
func TestDocuments_FromZeroToACall(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(node.root, "docs/kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "## From zero to a logged-in call\n")
	file := regexp.MustCompile("(?ms)^```yaml\n(# everything.yaml\n.*?)^```$").FindStringSubmatch(section)
	if file == nil {
		t.Fatal("it has no everything.yaml")
	}
	said := func(command string) []string { // the arguments of a command, which the section has
		t.Helper()
		if !strings.Contains(section, command) {
			t.Fatalf("the section does not have %q", command)
		}
		return strings.Fields(command)[1:]
	}
	const namespace = "tools"
	kubectl(t, "", said("kubectl create namespace tools")...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(node.explain(namespace))
		}
		command := exec.Command(node.Program("kubectl"), "delete", "namespace", namespace, "--wait=false")
		command.Env = append(os.Environ(), "KUBECONFIG="+node.Kubeconfig)
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	tr := newTrust(t, namespace)
	provider := tr.provider(t, idp.Options{WebRedirects: []string{"http://127.0.0.1:8090/oauth/callback"}})
	create := said("kubectl -n tools create secret generic github --from-literal=secret=YOUR-CLIENT-SECRET")
	create[len(create)-1] = "--from-literal=secret=" + idp.WebSecret
	kubectl(t, "", create...)

	text := file[1]
	for _, change := range [][2]string{
		{"https://github.com/login/oauth/authorize", provider.Issuer + "/auth"}, {"https://github.com/login/oauth/access_token", provider.Issuer + "/token"},
		{"https://api.github.com/user", provider.Issuer + "/me"}, {"clientId: Iv1.0123456789abcdef", "clientId: " + idp.WebClient},
		{"scopes: [read:user]", "scopes: [openid]"}, {"subjectFields: [id]", "subjectFields: [sub]"},
		{"docker.io/mcp/everything:latest", "$REGISTRY/probe:1"},
		{"  authServerRef: {name: github-login}", "  authServerRef: {name: github-login}\n  caBundleRef: {configMapRef: {name: authority, key: ca.pem}}"},
	} {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("everything.yaml does not have %q", change[0])
		}
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	said("kubectl apply -f everything.yaml")
	apply(t, namespace, text)
	if out, want := kubectl(t, "", said("kubectl -n tools wait mcpserver/everything --for=condition=Ready --timeout=2m")...), "mcpserver.toolhaven.dev/everything condition met\n"; out != want || !strings.Contains(section, want) {
		t.Errorf("kubectl wait writes %q", out)
	}
	forward := exec.CommandContext(t.Context(), node.Program("kubectl"), said("kubectl -n tools port-forward service/mcp-everything-proxy 8090:8080")...)
	forward.Env = append(os.Environ(), "KUBECONFIG="+node.Kubeconfig)
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = forward.Wait() }) // it is killed with the test's context
	eventually(t, "the port is forwarded", func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", "127.0.0.1:8090")
		if err == nil {
			conn.Close()
		}
		return err
	})

	program := newUser(t)
	run := program(said("thv run http://127.0.0.1:8090/mcp --name everything")...)
	stderr, err := run.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	run.Stdout = &stdout
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	lines, printed := bufio.NewScanner(stderr), ""
	for lines.Scan() {
		printed += lines.Text() + "\n"
		if address := strings.TrimSpace(lines.Text()); strings.HasPrefix(address, "http://127.0.0.1:8090/oauth/authorize?") {
			if err := signInAt(t, tr, address); err != nil {
				t.Fatalf("%v\n%s", err, printed)
			}
		}
	}
	if err := run.Wait(); err != nil {
		t.Fatalf("thv run: %v\n%s", err, printed)
	}
	if want := "logged in to http://127.0.0.1:8090/mcp at http://127.0.0.1:8090\n"; !strings.Contains(printed, want) || !strings.Contains(section, want) {
		t.Errorf("thv run writes %q", printed)
	}
	if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/mcp\n$`).MatchString(stdout.String()) {
		t.Errorf("thv run writes %q", stdout.String())
	}
	// The section calls the tool of another server.
	said("thv mcp call everything echo --arg message=hello")
	out, err := program("mcp", "call", "everything", "echo", "--arg", "text=hello").CombinedOutput()
	if err != nil || string(out) != "hello\n" {
		t.Errorf("thv mcp call: %v: %s", err, out)
	}
	for _, look := range []string{"kubectl -n tools describe mcpserver everything", "kubectl -n tools logs deployment/everything -c gateway"} {
		if out := kubectl(t, "", said(look)...); out == "" {
			t.Errorf("%s writes nothing", look)
		}
	}
}

// newUser is thv of someone outside the cluster; what it runs ends with the test.
func newUser(t *testing.T) func(args ...string) *exec.Cmd {
	t.Helper()
	home, err := os.MkdirTemp("", "user") // a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	environment := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	for _, kind := range []string{"STATE_HOME", "CONFIG_HOME", "RUNTIME_DIR", "DATA_HOME", "CACHE_HOME"} {
		dir := filepath.Join(home, kind)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		environment = append(environment, "XDG_"+kind+"="+dir)
	}
	user := func(ctx context.Context, args ...string) *exec.Cmd {
		command := exec.CommandContext(ctx, filepath.Join(node.root, "dist/linux-"+runtime.GOARCH+"/thv"), args...)
		command.Env = environment
		return command
	}
	t.Cleanup(func() {
		if out, err := user(context.WithoutCancel(t.Context()), "rm", "everything").CombinedOutput(); err != nil {
			t.Errorf("thv rm: %v: %s", err, out)
		}
	})
	return func(args ...string) *exec.Cmd { return user(t.Context(), args...) }
}

// signInAt does what a person does in the browser that thv opens, to the end at thv.
func signInAt(t *testing.T, tr trust, address string) error {
	t.Helper()
	back, err := browser(t.Context(), tr.client.Transport, address)
	if err != nil {
		return err
	}
	response, err := tr.client.Get(back)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
