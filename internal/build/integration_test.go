//go:build integration

package build

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/container/docker"
)

const everything = "go://github.com/modelcontextprotocol/go-sdk/examples/server/everything@v1.8.0"

// builder makes a Builder over the engine that runs here, which keeps its records
// in state.
func builder(t *testing.T, state string) *Builder {
	t.Helper()
	engine, err := docker.Connect(t.Context(), os.Getenv)
	if err != nil {
		t.Fatalf("these tests need a container engine (test/setup/docker.sh): %v", err)
	}
	t.Cleanup(func() { engine.Close() })
	return New(Config{Engine: engine, StateDir: state, Env: os.Getenv, Log: func(e Event) { t.Log(e.Message) }})
}

func mustBuild(t *testing.T, b *Builder, r Request) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	start := time.Now()
	res, err := b.Build(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: built=%v in %v", res.Image, res.Built, time.Since(start).Round(time.Millisecond))
	t.Cleanup(func() { b.undo(context.Background(), res.Image) })
	return res
}

func ref(t *testing.T, arg string) Request {
	t.Helper()
	r, err := ParseRef(arg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// noSources are variables that make every way to a package lead nowhere.
var noSources = map[string]string{
	"GOPROXY": "off", "NPM_CONFIG_REGISTRY": "http://127.0.0.1:1/", "PIP_INDEX_URL": "http://127.0.0.1:1/simple/",
}

// offline sets noSources for this process and the Go that it runs.
func offline(t *testing.T) {
	t.Helper()
	for name, value := range noSources {
		t.Setenv(name, value)
	}
}

// withoutNetwork sets noSources for b alone, which may run beside others.
func withoutNetwork(b *Builder) *Builder {
	b.cfg.Env = func(name string) string {
		if value, ok := noSources[name]; ok {
			return value
		}
		return os.Getenv(name)
	}
	return b
}

// initialize starts the image without a network and sends it the first request
// of MCP over its standard streams.
func initialize(t *testing.T, image string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", append([]string{"run", "--rm", "-i", "--network=none", "--cap-drop=ALL", image}, args...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, err = stdin.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		ID     int
		Result struct {
			ServerInfo struct{ Name string }
		}
	}
	err = json.NewDecoder(stdout).Decode(&answer)
	stdin.Close()
	_ = cmd.Wait() // how a server ends when its input does is its own affair
	if err != nil || answer.ID != 1 || answer.Result.ServerInfo.Name == "" {
		t.Fatalf("no answer to initialize: %v %+v\n%s", err, answer, stderr.String())
	}
}

func TestAGoPackageBecomesAnImageThatIsBuiltOnce(t *testing.T) {
	state := t.TempDir()
	b := builder(t, state)
	r := ref(t, everything)
	first := mustBuild(t, b, r)
	if !strings.HasPrefix(first.Image, "thv.local/go/github-com-modelcontextprotocol-go-sdk-examples-server-everything:v1.8.0-") || first.Version != "v1.8.0" {
		t.Fatalf("image %q, version %q", first.Image, first.Version)
	}
	initialize(t, first.Image)
	img, err := b.cfg.Engine.Image(t.Context(), first.Image)
	if err != nil {
		t.Fatal(err)
	}
	if img.User != "65532:65532" || !cmp.Equal(img.Entrypoint, []string{"/app/server"}) {
		t.Fatalf("user %q, entry point %q", img.User, img.Entrypoint)
	}

	offline(t)
	second := mustBuild(t, builder(t, state), r)
	if diff := cmp.Diff(Result{Image: first.Image, Version: "v1.8.0"}, second); diff != "" {
		t.Fatalf("the second build (-want +got):\n%s", diff)
	}
	latest := ref(t, strings.TrimSuffix(everything, "@v1.8.0")+"@latest")
	if _, err := b.Build(t.Context(), latest); err == nil {
		t.Fatal("@latest was resolved without a request to the module proxy")
	}
}

func TestALocalDirectoryIsCompiledWithoutATrace(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/hello\n\ngo 1.24\n")
	write(t, dir, "main.go", "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(os.Args[1]) }\n")
	b := builder(t, t.TempDir())
	r := ref(t, "go://"+dir)
	r.Args, r.Tag = []string{`$HOME "; rm`}, "thv-test/tagged:"+strings.ToLower(filepath.Base(dir))
	first := mustBuild(t, b, r)
	t.Cleanup(func() { b.undo(context.Background(), r.Tag) })
	if !first.Built || first.Version != "local" {
		t.Fatalf("%+v", first)
	}
	for _, image := range []string{first.Image, r.Tag} {
		out, err := exec.CommandContext(t.Context(), "docker", "run", "--rm", "--network=none", image).CombinedOutput()
		if err != nil || string(out) != r.Args[0] {
			t.Fatalf("%s printed %q, %v", image, out, err)
		}
	}
	if again := mustBuild(t, b, r); again.Built || again.Image != first.Image {
		t.Fatalf("the same source became %+v", again)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Fatalf("the directory holds %v, %v", entries, err)
	}

	write(t, dir, "main.go", "package main\n\nfunc main() { undefinedName() }\n")
	_, err = b.Build(t.Context(), r)
	if err == nil || !strings.Contains(err.Error(), "undefinedName") {
		t.Fatalf("a compile error is reported as %v", err)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAPackageThatDoesNotExistIsOneSentence(t *testing.T) {
	b := builder(t, t.TempDir())
	for _, arg := range []string{
		"go://github.com/modelcontextprotocol/go-sdk/examples/server/nothing-here@v1.8.0",
		"npx://@modelcontextprotocol/no-such-server-at-all",
		"npx://@modelcontextprotocol/server-everything@999.1.1",
		"uvx://mcp-server-that-does-not-exist",
		"uvx://mcp-server-time@999.1",
	} {
		_, err := b.Build(t.Context(), ref(t, arg))
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", arg, err)
			continue
		}
		t.Log(err)
		if strings.Count(err.Error(), "\n") != 0 {
			t.Errorf("%s: more than a sentence: %v", arg, err)
		}
	}
	// A request for what does not exist leaves no record and no directory of a build.
	for _, dir := range []string{"builds", "work"} {
		entries, err := os.ReadDir(filepath.Join(b.cfg.StateDir, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) || len(entries) != 0 {
			t.Errorf("%s: %v, %v", dir, entries, err)
		}
	}
}

func TestACancelledBuildLeavesNothing(t *testing.T) {
	b := builder(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	b.cfg.Log = func(Event) { cancel() }
	_, err := b.Build(ctx, ref(t, everything))
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(b.cfg.StateDir, "builds")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a record was kept: %v", err)
	}
}

func TestAnInstalledPackageBecomesAnImageThatIsBuiltOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		arg, base, image string
		args, start      []string
		packages         []string
	}{
		{
			arg: "npx://@modelcontextprotocol/server-everything", base: "thv-test/node:22",
			image: "thv.local/npx/modelcontextprotocol-server-everything:",
		},
		{
			arg: "npx://@modelcontextprotocol/server-filesystem@latest", base: "thv-test/node:22",
			image: "thv.local/npx/modelcontextprotocol-server-filesystem:", args: []string{"/tmp"},
		},
		{
			arg: "uvx://mcp-server-time", base: "thv-test/python:bookworm", packages: []string{"tzdata"},
			image: "thv.local/uvx/mcp-server-time:", args: []string{"--local-timezone=Europe/Berlin"},
		},
	} {
		t.Run(c.arg, func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			r := ref(t, c.arg)
			r.RuntimeImage, r.Args, r.AddPackages = c.base, c.args, c.packages
			first := mustBuild(t, builder(t, state), r)
			if !strings.HasPrefix(first.Image, c.image+first.Version+"-") {
				t.Fatalf("%+v", first)
			}
			initialize(t, first.Image)
			for _, path := range []string{"/thv", caPath} {
				if out, err := exec.CommandContext(t.Context(), "docker", "run", "--rm", "--network=none", "--entrypoint=ls", first.Image, path).CombinedOutput(); err == nil {
					t.Errorf("%s of the build stayed in the image: %s", path, out)
				}
			}
			// Any user that it runs as has a home directory (container.AnyUser).
			if out, err := exec.CommandContext(t.Context(), "docker", "run", "--rm", "--network=none", "--cap-drop=ALL", "--user=1234:1234", "--entrypoint=mkdir", first.Image, "/app/.cache").CombinedOutput(); err != nil {
				t.Errorf("a user of the machine's cannot write into the home: %s", out)
			}
			// The same version given by name is the same image.
			r.Version = first.Version
			second := mustBuild(t, builder(t, state), r)
			if diff := cmp.Diff(Result{Image: first.Image, Version: first.Version}, second); diff != "" {
				t.Fatalf("the same version (-want +got):\n%s", diff)
			}
			second = mustBuild(t, withoutNetwork(builder(t, state)), r)
			if diff := cmp.Diff(Result{Image: first.Image, Version: first.Version}, second); diff != "" {
				t.Fatalf("the second build (-want +got):\n%s", diff)
			}
		})
	}
}

// A Go package gets packages of a distribution beside it, on the base image.
func TestAGoPackageWithPackagesBesideIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/shelf\n\ngo 1.24\n")
	write(t, dir, "main.go", "package main\n\nimport (\n\t\"os\"\n\t\"os/exec\"\n)\n\nfunc main() {\n\tout, err := exec.Command(\"tree\", \"--version\").Output()\n\tif err != nil {\n\t\tos.Exit(1)\n\t}\n\tos.Stdout.Write(out)\n}\n")
	r := ref(t, "go://"+dir)
	r.RuntimeImage, r.AddPackages, r.CACert = goImage, []string{"tree"}, authority(t)
	b := builder(t, t.TempDir())
	res := mustBuild(t, b, r)
	out, err := exec.CommandContext(t.Context(), "docker", "run", "--rm", "--network=none", "--cap-drop=ALL", res.Image).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "tree v") {
		t.Errorf("the server prints %q, %v", out, err)
	}
	img, err := b.cfg.Engine.Image(t.Context(), res.Image)
	if err != nil {
		t.Fatal(err)
	}
	if img.User != appUser || img.Labels[labelStep] != "" || !slices.Contains(img.Env, "SSL_CERT_FILE="+caPath) || !cmp.Equal(img.Entrypoint, []string{entrypoint}) {
		t.Errorf("%+v", img)
	}
}

func TestAnAuthorityOfThePersonsIsKeptInTheImage(t *testing.T) {
	t.Parallel()
	r := ref(t, "npx://@modelcontextprotocol/server-everything")
	r.RuntimeImage, r.CACert = "thv-test/node:22", authority(t)
	b := builder(t, t.TempDir())
	res := mustBuild(t, b, r)
	initialize(t, res.Image)
	out, err := exec.CommandContext(t.Context(), "docker", "run", "--rm", "--network=none", "--entrypoint=cat", res.Image, caPath).Output()
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(r.CACert)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), strings.TrimSpace(string(own))) {
		t.Fatal("the image does not hold the authority")
	}
	img, err := b.cfg.Engine.Image(t.Context(), res.Image)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(img.Env, "NODE_EXTRA_CA_CERTS="+caPath) {
		t.Fatalf("the server does not receive it: %q", img.Env)
	}
}

func TestAPackageWithoutAnExecutableIsRefusedAndLeavesNothing(t *testing.T) {
	for arg, base := range map[string]string{
		"npx://lodash@4.17.21": "thv-test/node:22",
		"uvx://six@1.16.0":     "thv-test/python:bookworm",
	} {
		r := ref(t, arg)
		r.RuntimeImage = base
		b := builder(t, t.TempDir())
		res, err := b.Build(t.Context(), r)
		if err == nil || !strings.Contains(err.Error(), "so it cannot be run") {
			t.Errorf("%s: %+v, %v", arg, res, err)
		}
		if _, err := os.Stat(filepath.Join(b.cfg.StateDir, "builds")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a record was kept: %v", arg, err)
		}
		name := "thv.local/" + r.Scheme + "/" + r.Name
		out, err := exec.CommandContext(t.Context(), "docker", "image", "ls", "-q", name).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s: an image was left: %s, %v", arg, out, err)
		}
	}
}

func TestAMissingBaseImageIsNamed(t *testing.T) {
	r := ref(t, "npx://@modelcontextprotocol/server-everything")
	r.RuntimeImage = "127.0.0.1:1/no/such:image"
	_, err := builder(t, t.TempDir()).Build(t.Context(), r)
	if err == nil || !strings.Contains(err.Error(), r.RuntimeImage) || !strings.Contains(err.Error(), "--runtime-image") || errors.Is(err, ErrNotFound) {
		t.Fatalf("%v", err)
	}
}
