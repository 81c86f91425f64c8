//go:build integration

package registrycmd_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/toolhaven/toolhaven/internal/auth"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
	"github.com/toolhaven/toolhaven/internal/cli/registrycmd"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/test/idp"
	"github.com/toolhaven/toolhaven/test/local"
)

// protectedRegistry is a registry with one remote server, behind our validator,
// for the tokens of a real identity provider.
func protectedRegistry(t *testing.T, provider *idp.Provider, remote string) string {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	location := server.URL + "/registry/default"
	validator, err := auth.NewValidator([]auth.Provider{{Name: "idp", IssuerURL: provider.Issuer, Audience: location}}, auth.Options{
		Client: func(auth.Provider) (*http.Client, error) {
			return netguard.Client(netguard.Options{AllowLoopback: true})
		},
		Leeway: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	resource, err := auth.NewResource(auth.ResourceConfig{
		URL: location, Realm: "mcp-registry", AuthorizationServers: []string{provider.Issuer}, Scopes: []string{"mcp-registry:read"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range resource.Paths() {
		mux.Handle(path, resource)
	}
	entry := map[string]any{"server": map[string]any{
		"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json", "name": "io.example/remote",
		"description": "It does.", "version": "1.0.0", "remotes": []any{map[string]any{"type": "streamable-http", "url": remote}},
	}}
	serve := func(v any) http.Handler {
		return auth.Require(validator, resource.Unauthorized, slog.New(slog.DiscardHandler), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(v)
		}))
	}
	mux.Handle("GET /registry/default/v0.1/servers", serve(map[string]any{"servers": []any{entry}, "metadata": map[string]any{"count": 1}}))
	mux.Handle("GET /registry/default/v0.1/servers/{name}/versions/{version}", serve(entry))
	return location
}

// session is the program thv with a registry, whose every output is searched for
// secrets at the end.
type session struct {
	t        *testing.T
	location string
	app      *base.App
	mu       sync.Mutex
	output   bytes.Buffer
	secrets  map[string]bool
}

func newSession(t *testing.T, location string) *session {
	t.Helper()
	s := &session{t: t, location: location, app: clitest.LivingApp(t), secrets: map[string]bool{}}
	s.run(base.ExitOK, "config", "set-registry", location)
	t.Cleanup(func() {
		for secret := range s.secrets {
			if strings.Contains(s.output.String(), secret) {
				t.Errorf("an output shows %q:\n%s", secret, s.output.String())
			}
		}
		if len(s.secrets) < 3 {
			t.Errorf("only %d secrets were looked for", len(s.secrets))
		}
	})
	return s
}

// run runs a command in this process.
func (s *session) run(code int, args ...string) (stdout, stderr string) {
	s.t.Helper()
	stdout, stderr, got := clitest.Run(s.t, s.app, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.output.WriteString(stdout + stderr)
	if got != code {
		s.t.Errorf("thv %v: exit code %d, want %d\n%s%s", args, got, code, stdout, stderr)
	}
	s.noteSecrets()
	return stdout, stderr
}

// noteSecrets collects what the store holds now.
func (s *session) noteSecrets() {
	// Sign-ins are JSON in values of the secrets store, which is JSON without a password.
	for _, file := range []string{filepath.Join(os.Getenv("XDG_STATE_HOME"), "thv/secrets/store")} {
		b, _ := os.ReadFile(file)
		for _, m := range regexp.MustCompile(`"(?:accessToken|refreshToken|secret)\\":\\"([^"\\]+)`).FindAllSubmatch(b, -1) {
			s.secrets[string(m[1])] = true
		}
	}
}

// login starts `thv registry login` as a process of its own and gives the address
// that it shows; finish waits for its end.
func (s *session) login(extra []string, args ...string) (address string, stdin io.Writer, finish func(code int) (stdout, stderr string)) {
	s.t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"registry", "login"}, args...)...)
	cmd.Env = append(append(os.Environ(), clitest.AsProgram+"=1"), extra...)
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	errPipe, err := cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { cmd.Process.Kill() })
	found, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(errPipe)
		for lines.Scan() {
			errOut.WriteString(lines.Text() + "\n")
			if text := strings.TrimSpace(lines.Text()); strings.HasPrefix(text, "http") {
				found <- text
			}
		}
	}()
	finish = func(code int) (string, string) {
		s.t.Helper()
		select {
		case <-ended:
		case <-time.After(clitest.LongEnough):
			s.t.Fatal("the login does not end")
		}
		cmd.Wait()
		s.output.WriteString(out.String() + errOut.String())
		s.noteSecrets()
		if got := cmd.ProcessState.ExitCode(); got != code {
			s.t.Errorf("login: exit code %d, want %d\n%s%s", got, code, out.String(), errOut.String())
		}
		return out.String(), errOut.String()
	}
	select {
	case address = <-found:
	case <-ended:
		finish(-1)
		s.t.FailNow()
	case <-time.After(clitest.LongEnough):
		s.t.Fatal("no address is shown")
	}
	return address, in, finish
}

var (
	formAction = regexp.MustCompile(`action="([^"]+)"`)
	formPrompt = regexp.MustCompile(`name="prompt" value="([^"]+)"`)
)

// visit fills in the identity provider's pages as a person does, up to the
// redirect, which it returns and follows only on request.
func (s *session) visit(address string, follow bool) (back string) {
	s.t.Helper()
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar, Timeout: clitest.LongEnough, CheckRedirect: func(req *http.Request, _ []*http.Request) error {
		if req.URL.Path == "/callback" {
			back = req.URL.String()
			s.secrets[req.URL.Query().Get("code")] = true
			if !follow {
				return http.ErrUseLastResponse
			}
		}
		return nil
	}}
	resp, err := client.Get(address)
	for range 4 {
		if err != nil {
			s.t.Fatal(err)
		}
		page, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if back != "" {
			if follow && (resp.StatusCode != http.StatusOK || !strings.Contains(string(page), "You can close this window")) {
				s.t.Errorf("the page at the end: %d %s", resp.StatusCode, page)
			}
			if follow {
				s.output.Write(page)
			}
			return back
		}
		action, prompt := formAction.FindSubmatch(page), formPrompt.FindSubmatch(page)
		if action == nil || prompt == nil {
			s.t.Fatalf("%s: %d %s", resp.Request.URL, resp.StatusCode, page)
		}
		target, parseErr := resp.Request.URL.Parse(string(action[1]))
		if parseErr != nil {
			s.t.Fatal(parseErr)
		}
		resp, err = client.PostForm(target.String(), url.Values{"prompt": {string(prompt[1])}, "login": {"jo"}, "password": {"any"}})
	}
	s.t.Fatal("the pages do not end")
	return ""
}

func TestLogin_Paste(t *testing.T) {
	provider := idp.Start(t, idp.Options{})
	location := protectedRegistry(t, provider, clitest.RemoteServer(t, nil))
	s := newSession(t, location)
	for _, args := range [][]string{{"registry", "list"}, {"registry", "search", "x"}, {"registry", "info", "remote"}, {"run", "io.example/remote"}} {
		if _, stderr := s.run(base.ExitFailure, args...); !strings.Contains(stderr, "run `thv registry login`") {
			t.Errorf("%v: %s", args, stderr)
		}
	}
	address, stdin, finish := s.login(nil, "--skip-browser", "-o", "json")
	back := s.visit(address, false)
	io.WriteString(stdin, "not this\n"+back+"\n")
	stdout, _ := finish(base.ExitOK)
	var shown map[string]any
	if err := json.Unmarshal([]byte(stdout), &shown); err != nil || shown["signedIn"] != true || shown["resource"] != location || shown["issuer"] != provider.Issuer || shown["renews"] != true {
		t.Errorf("%s %v", stdout, err)
	}
	if stdout, _ := s.run(base.ExitOK, "registry", "list"); !strings.Contains(stdout, "io.example/remote") {
		t.Error(stdout)
	}
	s.run(base.ExitOK, "registry", "search", "remote")
	s.run(base.ExitOK, "registry", "info", "remote")
	if stdout, stderr := s.run(base.ExitOK, "run", "io.example/remote"); !strings.Contains(stdout, "http://") {
		t.Errorf("%s%s", stdout, stderr)
	}
	if _, stderr := s.run(base.ExitOK, "registry", "logout"); !strings.Contains(stderr, "signed out of "+location) || strings.Contains(stderr, "note:") {
		t.Error(stderr)
	}
	if _, stderr := s.run(base.ExitFailure, "registry", "list"); !strings.Contains(stderr, "run `thv registry login`") {
		t.Error(stderr)
	}
}

// The identity provider rotates refresh tokens and takes a second use for theft.
func TestLogin_RefreshIsSharedByProcesses(t *testing.T) {
	provider := idp.Start(t, idp.Options{TokenLifetime: 9 * time.Second})
	location := protectedRegistry(t, provider, "https://remote.example/mcp")
	s := newSession(t, location)
	address, stdin, finish := s.login(nil, "--skip-browser")
	io.WriteString(stdin, s.visit(address, false)+"\n")
	finish(base.ExitOK)
	for range 3 {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				cmd := exec.Command(os.Args[0], "registry", "list", "--debug")
				cmd.Env = append(os.Environ(), clitest.AsProgram+"=1")
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "io.example/remote") {
					t.Errorf("%v: %s", err, out)
				}
				s.mu.Lock()
				s.output.Write(out)
				s.mu.Unlock()
			})
		}
		all.Wait()
		s.noteSecrets()
	}
	// After a restart the provider does not have the client any more. The error names the
	// command to sign in, and the next sign-in succeeds.
	provider.Stop()
	if _, stderr := s.run(base.ExitFailure, "registry", "list"); !strings.Contains(stderr, "connection refused") || strings.Contains(stderr, "registry login") {
		t.Error(stderr)
	}
	provider.Restart(t)
	if _, stderr := s.run(base.ExitFailure, "registry", "list"); !strings.Contains(stderr, "a sign-in is needed") || !strings.Contains(stderr, "run `thv registry login`") {
		t.Error(stderr)
	}
	address, stdin, finish = s.login(nil, "--skip-browser")
	io.WriteString(stdin, s.visit(address, false)+"\n")
	finish(base.ExitOK)
	s.run(base.ExitOK, "registry", "list")
}

// fakeOpener puts an xdg-open into PATH that notes what it is to open.
func fakeOpener(t *testing.T) (env string, opened func() string) {
	t.Helper()
	dir := t.TempDir()
	note := filepath.Join(dir, "opened")
	script := "#!/bin/sh\nprintf '%s|' \"$#\" \"$@\" > '" + note + ".tmp' && mv '" + note + ".tmp' '" + note + "'\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return "PATH=" + dir + ":" + os.Getenv("PATH"), func() string {
		for deadline := time.Now().Add(clitest.LongEnough); time.Now().Before(deadline); {
			if b, err := os.ReadFile(note); err == nil {
				count, address, _ := strings.Cut(strings.TrimSuffix(string(b), "|"), "|")
				if count != "1" {
					t.Errorf("the opener was given %s arguments", count)
				}
				return address
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatal("no browser was opened")
		return ""
	}
}

func TestLogin_Browser(t *testing.T) {
	free, err := local.FreePort() // for the client whose redirect URI is compared exactly
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(free)
	provider := idp.Start(t, idp.Options{WebRedirects: []string{"http://127.0.0.1:" + port + "/callback"}})
	location := protectedRegistry(t, provider, "https://remote.example/mcp")
	for name, args := range map[string][]string{
		"registered by itself":           nil,
		"registered by an administrator": {"--client-id", idp.PublicClient},
		"with a secret":                  {"--client-id", idp.WebClient, "--callback-port", port},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t, location)
			path, opened := fakeOpener(t)
			s.secrets[idp.WebSecret] = true
			address, _, finish := s.login([]string{path, registrycmd.EnvRegistryClientSecret + "=" + map[bool]string{true: idp.WebSecret}[name == "with a secret"]}, args...)
			if got := opened(); got != address {
				t.Errorf("opened %s, shown %s", got, address)
			}
			s.visit(address, true)
			if stdout, stderr := finish(base.ExitOK); stdout != "" || !strings.Contains(stderr, "signed in to "+location) {
				t.Errorf("%s%s", stdout, stderr)
			}
			s.run(base.ExitOK, "registry", "list")
			t.Setenv(registrycmd.EnvRegistryClientSecret, map[bool]string{true: idp.WebSecret}[name == "with a secret"])
			if _, stderr := s.run(base.ExitOK, "registry", "logout"); strings.Contains(stderr, "note:") {
				t.Error(stderr)
			}
		})
	}
}

func TestLogin_Chromium(t *testing.T) {
	const chromium = "/usr/bin/chromium"
	if _, err := os.Stat(chromium); err != nil {
		t.Fatalf("%v; test/setup/chromium.sh installs it", err)
	}
	provider := idp.Start(t, idp.Options{})
	location := protectedRegistry(t, provider, "https://remote.example/mcp")
	s := newSession(t, location)
	path, opened := fakeOpener(t)
	_, _, finish := s.login([]string{path})
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU,
		// Only this machine is reached: the provider's page requests a font of Google's.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), chromedp.WSURLReadTimeout(clitest.LongEnough))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	defer stop()
	browser, stop := chromedp.NewContext(allocator)
	defer stop()
	bounded, stop := context.WithTimeout(browser, 3*time.Minute)
	defer stop()
	var title, text, at string
	if err := chromedp.Run(bounded,
		chromedp.Navigate(opened()),
		chromedp.WaitVisible(`input[name=login]`), chromedp.SendKeys(`input[name=login]`, "jo"), chromedp.SendKeys(`input[name=password]`, "x"), chromedp.Click(`button[type=submit]`),
		chromedp.WaitVisible(`button[autofocus]`), chromedp.Click(`button[type=submit]`),
		chromedp.WaitVisible(`//h1[.='Toolhaven']`), chromedp.Title(&title), chromedp.Text(`body`, &text), chromedp.Location(&at),
	); err != nil {
		t.Fatal(err)
	}
	if title != "Toolhaven" || !strings.Contains(text, "You can close this window") {
		t.Errorf("%s: %s", title, text)
	}
	if u, err := url.Parse(at); err == nil {
		s.secrets[u.Query().Get("code")] = true
	}
	s.output.WriteString(text)
	finish(base.ExitOK)
	s.run(base.ExitOK, "registry", "list")
}
