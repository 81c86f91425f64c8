//go:build integration

package registry

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/toolhaven/toolhaven/test/local"
	"github.com/toolhaven/toolhaven/test/postgres"
)

// program is the built thv-registry, with the race detector where there is one.
var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "thv-registry-test")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "thv-registry")
		args := []string{"build", "-o", program}
		if _, err := exec.LookPath("gcc"); err == nil {
			args = append(args, "-race")
		}
		build := exec.Command("go", append(args, "../../cmd/thv-registry")...)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build thv-registry:", err)
			return 1
		}
		return m.Run()
	}())
}

// instance is a running server.
type instance struct {
	t              *testing.T
	base, internal string // URLs
	cmd            *exec.Cmd
	config         string // path
	log            *local.Output
	ended          chan struct{}
	contract       routers.Router
	// token, if any, is sent with every request.
	token string
}

// patience bounds every wait of a test for something that must happen; on a busy
// machine that takes its time.
const patience = 2 * time.Minute

// serve starts the program with a configuration and waits until it is ready.
func serve(t *testing.T, config string, env ...string) *instance {
	t.Helper()
	s := launch(t, config, env...)
	eventually(t, "the server is ready", func() error {
		select {
		case <-s.ended:
			t.Fatalf("the server ended:\n%s", s.log)
		default:
		}
		resp, err := http.Get(s.internal + "/readiness")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", resp.Status, body)
		}
		return nil
	})
	s.contract = contract(t, s.base)
	return s
}

// launch starts the program and waits until it has its ports.
func launch(t *testing.T, config string, env ...string) *instance {
	t.Helper()
	path := filepath.Join(t.TempDir(), "registry.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &instance{t: t, config: path}
	s.start("127.0.0.1:0", "127.0.0.1:0", env...)
	return s
}

func (s *instance) start(address, internal string, env ...string) {
	s.t.Helper()
	s.log, s.ended = &local.Output{}, make(chan struct{})
	s.cmd = exec.Command(program, "serve", "--config", s.config, "--address", address, "--internal-address", internal, "--log-level", "debug")
	s.cmd.Env = append(os.Environ(), append([]string{"XDG_STATE_HOME=" + filepath.Dir(s.config)}, env...)...)
	s.cmd.Stdout = s.log
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	addresses := make(chan [2]string, 1)
	ended := s.ended
	go func() {
		defer close(ended)
		lines := bufio.NewReader(stderr)
		for {
			line, err := lines.ReadString('\n')
			_, _ = s.log.Write([]byte(line))
			var said struct{ Msg, Address, InternalAddress string }
			if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "the registry serves" {
				addresses <- [2]string{said.Address, said.InternalAddress}
			}
			if err != nil {
				break
			}
		}
		_ = s.cmd.Wait()
	}()
	s.t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-ended
	})
	select {
	case a := <-addresses:
		s.base, s.internal = "http://"+a[0], "http://"+a[1]
	case <-s.ended:
		s.t.Fatalf("the server ended:\n%s", s.log)
	case <-time.After(patience):
		s.t.Fatalf("the server does not start:\n%s", s.log)
	}
}

// said waits until what the program has logged since a mark has all the words. A line
// may be read later than the answer to the request that it is about.
func (s *instance) said(t testing.TB, since int, words ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the log says %q", words), func() error {
		text := s.log.String()[since:]
		for _, word := range words {
			// The log is JSON: quotes and signs of greater and less are escaped.
			quoted, _ := json.Marshal(word)
			if !strings.Contains(text, strings.Trim(string(quoted), `"`)) && !strings.Contains(text, word) {
				return fmt.Errorf("%q is not in\n%s", word, text)
			}
		}
		return nil
	})
}

func (s *instance) mark() int { return len(s.log.String()) }

// stop ends the server as an orchestrator does and returns its exit code.
func (s *instance) stop() int {
	s.t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatalf("the server does not stop:\n%s", s.log)
	}
	return s.cmd.ProcessState.ExitCode()
}

// eventually polls until probe succeeds.
func eventually(t testing.TB, what string, probe func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := probe()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s: %v", patience, what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// contract reads the server's own description of its API.
func contract(t *testing.T, base string) routers.Router {
	t.Helper()
	resp, err := http.Get(base + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(content)
	if err != nil {
		t.Fatal(err)
	}
	doc.Servers = nil
	if err := doc.Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return router
}

// answer is an HTTP answer, read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.body) }

// into decodes the body.
func (a answer) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%s: %v", a, err)
	}
}

type header map[string]string

// do sends a request, and holds the answer to the contract where the path is in
// it. A path goes out as it is written.
func (s *instance) do(method, path string, body any, headers ...header) answer {
	s.t.Helper()
	var content []byte
	switch b := body.(type) {
	case nil:
	case string:
		content = []byte(b)
	case []byte:
		content = b
	default:
		var err error
		if content, err = json.Marshal(b); err != nil {
			s.t.Fatal(err)
		}
	}
	req, err := http.NewRequest(method, s.base+path, bytes.NewReader(content))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	for _, h := range headers {
		for k, v := range h {
			req.Header.Set(k, v)
			if v == "" {
				req.Header.Del(k)
			}
		}
	}
	resp, err := (&http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		s.t.Fatal(err)
	}
	s.hold(req, a)
	return a
}

// hold compares an answer with the contract.
func (s *instance) hold(req *http.Request, a answer) {
	s.t.Helper()
	if s.contract == nil {
		return
	}
	route, params, err := s.contract.FindRoute(req)
	if err != nil {
		return
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route},
		Status:                 a.status, Header: a.header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	input.SetBodyBytes(a.body)
	if err := openapi3filter.ValidateResponse(context.Background(), input); err != nil {
		s.t.Errorf("%s %s breaks the contract: %v\n%s", req.Method, req.URL.EscapedPath(), err, a)
	}
}

// run runs a command of the program.
func run(t *testing.T, stdin string, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

const anonymous = "auth:\n  mode: anonymous\n"

type serverList struct {
	Servers  []serverAnswer
	Metadata struct {
		NextCursor string
		Count      int
	}
}

type serverAnswer struct {
	Server struct{ Name, Version, Description, Title string }
	Meta   map[string]struct {
		Status, StatusMessage                   string
		StatusChangedAt, PublishedAt, UpdatedAt time.Time
		IsLatest                                bool
	} `json:"_meta"`
}

const official = "io.modelcontextprotocol.registry/official"

// server is a small server.json.
func server(name, version string) map[string]any {
	return map[string]any{
		"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
		"name":    name, "version": version, "description": "Says what the weather is",
		"remotes": []any{map[string]any{"type": "streamable-http", "url": "https://mcp.example.com/" + version}},
	}
}

// at is the path of a server in the default registry.
func at(name string, rest ...string) string {
	return "/registry/default/v0.1/servers/" + strings.ReplaceAll(name, "/", "%2F") + strings.Join(rest, "")
}

const (
	servers = "/registry/default/v0.1/servers"
	publish = "/registry/default/v0.1/publish"
)

// as is the same server for a caller with a token.
func (s *instance) as(t *testing.T, token string) *instance {
	return &instance{t: t, base: s.base, internal: s.internal, log: s.log, contract: s.contract, token: token}
}

// raw sends a GET with a path as it is written, which net/http would tidy.
func (s *instance) raw(t *testing.T, path string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: body}
}

func secretFile(t *testing.T, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// onEachDatabase runs a test against a server in anonymous mode on SQLite, and
// against one on PostgreSQL.
func onEachDatabase(t *testing.T, test func(*testing.T, *instance)) {
	t.Run("SQLite", func(t *testing.T) { test(t, serve(t, anonymous)) })
	t.Run("PostgreSQL", func(t *testing.T) {
		test(t, serve(t, anonymous+fmt.Sprintf("database:\n  postgres: {url: %q}\n", postgres.Start(t).Database(t))))
	})
}
