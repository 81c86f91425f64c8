//go:build integration

package corners

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func repo() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		panic(err) // the working directory is gone
	}
	return dir
}

// thvPath is the program under test; THV_UNDER_TEST names another build of it.
func thvPath() string {
	if path := os.Getenv("THV_UNDER_TEST"); path != "" {
		return path
	}
	return filepath.Join(repo(), "bin", "thv")
}

func cache(name string) string { return filepath.Join(repo(), "test", ".cache", name) }

// place is where this run of the tests has its thv: directories with short
// paths, because sockets live in them.
type place struct{ env []string }

func newPlace() (*place, func() error, error) {
	dir, err := os.MkdirTemp("", "thv")
	if err != nil {
		return nil, nil, err
	}
	p := &place{env: os.Environ()}
	for _, name := range []string{"STATE_HOME", "RUNTIME_DIR", "CONFIG_HOME"} {
		d := filepath.Join(dir, name)
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, nil, err
		}
		p.env = append(p.env, "XDG_"+name+"="+d)
	}
	return p, func() error {
		if _, err := p.thv("rm", "--all"); err != nil {
			return err // dir is kept for inspection
		}
		return os.RemoveAll(dir)
	}, nil
}

func (p *place) thv(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, thvPath(), args...)
	cmd.Env = p.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("thv %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// gateway puts thv before a server and returns its URL.
func (p *place) gateway(t *testing.T, name, server string, flags ...string) string {
	t.Helper()
	out, err := p.thv(append([]string{"run", server, "--name", name, "-o", "json"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	var started struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(out, &started); err != nil {
		t.Fatalf("thv run -o json: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if t.Failed() {
			logs, err := p.thv("logs", name, "--proxy")
			t.Logf("the log of the gateway of %s (%v):\n%s", name, err, logs)
		}
		if _, err := p.thv("rm", name); err != nil {
			t.Error(err)
		}
	})
	return started.URL
}

func goServer() string { return filepath.Join(cache("corners"), "server") }

func goClient() string { return filepath.Join(cache("corners"), "goclient") }

func python(major string) string {
	return filepath.Join(cache("python-clients"), major, "bin", "python")
}

// prepare builds what is ours, and looks for what test/setup installs.
func prepare() error {
	for _, path := range []string{thvPath(), node(), python("1"), python("2")} {
		if _, err := os.Stat(path); err != nil {
			return err
		}
	}
	for path, pkg := range map[string]string{goServer(): "./test/corners/server", goClient(): "./test/corners/clients/goclient"} {
		build := exec.Command("go", "build", "-trimpath", "-o", path, pkg)
		build.Dir = repo()
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // static: an image from nothing holds it
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w: %s", pkg, err, out)
		}
	}
	if err := makeImage(); err != nil {
		return err
	}
	return makePythonImage()
}

// image holds the server and nothing else.
const image = "thv-test/corners:latest"

func makeImage() error {
	tar := exec.Command("tar", "-c", "-C", cache("corners"), "server")
	archive, err := tar.Output()
	if err != nil {
		return fmt.Errorf("pack the server: %w", err)
	}
	docker := exec.Command("docker", "import", "--change", `ENTRYPOINT ["/server"]`, "-", image)
	docker.Stdin = bytes.NewReader(archive)
	if out, err := docker.CombinedOutput(); err != nil {
		return fmt.Errorf("make the image %s: %w: %s", image, err, out)
	}
	return nil
}

// pythonImage holds the server of the Python SDK, and the SDK as it was installed.
const pythonImage = "thv-test/corners-python:latest"

const pythonDockerfile = `FROM thv-test/python:bookworm
COPY lib/python3.11/site-packages /site
COPY pyserver/server.py /server.py
ENV PYTHONPATH=/site
ENTRYPOINT ["python3", "/server.py"]
`

func makePythonImage() error {
	// The image's Python must be the one that the packages were installed for.
	tar := exec.Command("tar", "-c", "-C", filepath.Join(cache("python-clients"), "2"), "lib/python3.11/site-packages",
		"-C", filepath.Join(repo(), "test", "corners"), "pyserver", "-C", cache("corners"), "Dockerfile")
	if err := os.WriteFile(filepath.Join(cache("corners"), "Dockerfile"), []byte(pythonDockerfile), 0o644); err != nil {
		return err
	}
	archive, err := tar.Output()
	if err != nil {
		return fmt.Errorf("pack the Python server: %w", err)
	}
	docker := exec.Command("docker", "build", "-q", "-t", pythonImage, "-")
	docker.Stdin = bytes.NewReader(archive)
	if out, err := docker.CombinedOutput(); err != nil {
		return fmt.Errorf("make the image %s: %w: %s", pythonImage, err, out)
	}
	return nil
}

// nodeImage has a Node.js. The servers of the TypeScript SDKs, and the SDKs as they
// were installed, are mounted there.
const nodeImage = "thv-test/node:22"

func nodeFlags() []string {
	return []string{
		"--transport", "stdio", "-e", "CLIENTS_DIR=/clients",
		"-v", cache("clients") + "/node_modules:/clients/node_modules:ro",
		"-v", filepath.Join(repo(), "test", "corners", "tsserver") + ":/tsserver:ro",
	}
}

func inNodeImage(script string) []string { return []string{"node", "/tsserver/" + script} }

func nodeServer(script string, args ...string) []string {
	return append([]string{node(), filepath.Join("tsserver", script)}, args...)
}

func node() string { return filepath.Join(cache("clients"), "node") }

// serve starts the server on the host and returns its URL.
func serve(t *testing.T, argv []string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "CLIENTS_DIR="+cache("clients"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("the output of the server %v:\n%s", argv, stderr.Bytes())
		}
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server does not report its address: %v", err)
	}
	return "http://" + strings.TrimSpace(addr)
}
