package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// maxProgram bounds a compiled program, in bytes.
const maxProgram = 1 << 30

// makeGo compiles with the host's toolchain and packs the program into an image
// from nothing.
func (b *Builder) makeGo(ctx context.Context, r Request, k recordKey) (made, error) {
	work, err := os.MkdirTemp("", "thv-build-")
	if err != nil {
		return made{}, fmt.Errorf("make a directory to build in: %w", err)
	}
	defer os.RemoveAll(work)
	certs, err := b.certificates(r.CACert)
	if err != nil {
		return made{}, err
	}
	tool, err := b.toolchain(k.Arch, work)
	if err != nil {
		return made{}, err
	}
	if r.CACert != "" {
		if err := tool.trust(certs); err != nil {
			return made{}, err
		}
	}
	program := filepath.Join(work, "server")
	var version string
	name := r.Name
	if r.Dir != "" {
		b.say("compiling the Go package in %s", r.Dir)
		name, version, err = tool.compileDir(ctx, r.Dir, program)
	} else {
		b.say("fetching and compiling %s", r)
		version, err = tool.compilePackage(ctx, r, program)
	}
	if err != nil {
		return made{}, err
	}
	content, err := hashFile(program)
	if err != nil {
		return made{}, err
	}
	image, err := imageTag(inputs{
		Recipe: recipe, Scheme: r.Scheme, Name: name, Version: version, Arch: k.Arch, Args: r.Args,
		CA: hash(certs), Content: content,
	})
	if err != nil {
		return made{}, err
	}
	built, err := b.once(ctx, image, func() error {
		b.say("packing %s", image)
		img, err := scratch{program: program, certs: certs, arch: k.Arch, args: r.Args, labels: labels(r, version), work: work}.image()
		if err != nil {
			return err
		}
		return b.load(ctx, img, image)
	})
	if err != nil {
		return made{}, err
	}
	return made{image: image, version: version, built: built}, nil
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the compiled program: %w", err)
	}
	defer f.Close()
	content, err := netguard.ReadBounded(f, maxProgram)
	if err != nil {
		return "", fmt.Errorf("read the compiled program: %w", err)
	}
	return hash(content), nil
}

// toolchain is the host's go command with the environment it compiles in.
type toolchain struct {
	path string
	env  []string
	work string
}

// goSettings is what of the person's environment a compilation is given: what
// finds the toolchain, its caches and its ways to the modules, and nothing that
// changes what is made. Secrets in other variables are not handed to it.
var goSettings = [...]string{
	"PATH", "HOME", "USER", "TMPDIR", "LANG", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "SSH_AUTH_SOCK",
	"USERPROFILE", "APPDATA", "LOCALAPPDATA", "SYSTEMROOT", "TEMP", "TMP",
	"GOROOT", "GOPATH", "GOCACHE", "GOMODCACHE", "GOENV", "GOTOOLCHAIN", "GOWORK",
	"GOPROXY", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB", "GOINSECURE", "GOVCS", "GOAUTH", "NETRC",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

func (b *Builder) toolchain(arch, work string) (*toolchain, error) {
	t := &toolchain{work: work}
	for _, dir := range filepath.SplitList(b.cfg.Env("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, "go")); err == nil {
			t.path = path
			break
		}
	}
	if t.path == "" {
		return nil, errors.New("no go command is in PATH: install Go (https://go.dev/dl) and run it again")
	}
	for _, key := range goSettings {
		if v := b.cfg.Env(key); v != "" {
			t.env = append(t.env, key+"="+v)
		}
	}
	// GOFLAGS would change what is made; flags that matter are given.
	t.env = append(t.env, "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=", "GIT_TERMINAL_PROMPT=0")
	return t, nil
}

// trust makes the go command trust exactly these authorities.
func (t *toolchain) trust(certs []byte) error {
	path := filepath.Join(t.work, "ca.crt")
	if err := os.WriteFile(path, certs, 0o600); err != nil {
		return fmt.Errorf("write the CA certificates: %w", err)
	}
	t.env = append(t.env, "SSL_CERT_FILE="+path, "GIT_SSL_CAINFO="+path)
	return nil
}

// goError is a failed go command with what it said.
type goError struct {
	err    error
	output string
}

func (e *goError) Error() string { return lastLines(e.output) }
func (e *goError) Unwrap() error { return e.err }

func (t *toolchain) run(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, t.path, args...)
	cmd.Dir, cmd.Env = dir, t.env
	killTogether(cmd)
	var stdout, stderr tail
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctxErr := context.Cause(ctx); err != nil && ctxErr != nil {
		return "", fmt.Errorf("go %s was stopped: %w", args[0], ctxErr)
	}
	if err != nil {
		if stderr.String() == "" {
			return "", fmt.Errorf("go %s: %w", args[0], err)
		}
		return "", &goError{err: err, output: stderr.String()}
	}
	return stdout.String(), nil
}

// compilePackage fetches and compiles a package of a module that others
// published. A module of our own that requires it stands around it, because `go
// install package@version` refuses modules with replace directives.
func (t *toolchain) compilePackage(ctx context.Context, r Request, program string) (version string, err error) {
	dir := filepath.Join(t.work, "module")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a directory to build in: %w", err)
	}
	t.env = append(t.env, "GOWORK=off")
	if _, err := t.run(ctx, dir, "mod", "init", "thvbuild"); err != nil {
		return "", fmt.Errorf("start a Go module: %w", err)
	}
	wanted := r.Version
	if wanted == "" {
		wanted = "latest"
	}
	if _, err := t.run(ctx, dir, "get", r.Name+"@"+wanted); err != nil {
		return "", fetchError(r.Name, wanted, err)
	}
	out, err := t.run(ctx, dir, "list", "-mod=mod", "-f", "{{.Name}} {{with .Module}}{{.Version}}{{end}}", r.Name)
	if err != nil {
		return "", fetchError(r.Name, wanted, err)
	}
	kind, version, _ := strings.Cut(strings.TrimSpace(out), " ")
	if kind != "main" {
		return "", fmt.Errorf("%s is Go package %q, a library: name the package of a command (package main)", r.Name, kind)
	}
	return version, t.compile(ctx, dir, program, r.Name, "-mod=mod")
}

// compileDir compiles the package in a directory of the person's, into which
// nothing is written.
func (t *toolchain) compileDir(ctx context.Context, dir, program string) (name, version string, err error) {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", fmt.Errorf("the directory %s does not exist", dir)
	case err != nil:
		return "", "", fmt.Errorf("look at the directory: %w", err)
	case !st.IsDir():
		return "", "", fmt.Errorf("%s is not a directory", dir)
	}
	out, err := t.run(ctx, dir, "list", "-f", "{{.Name}}", ".")
	if err != nil {
		return "", "", fmt.Errorf("%s is not a Go package that can be built: %w", dir, err)
	}
	if kind := strings.TrimSpace(out); kind != "main" {
		return "", "", fmt.Errorf("%s holds Go package %q, a library: name the directory of a command (package main)", dir, kind)
	}
	return filepath.Base(dir), "local", t.compile(ctx, dir, program, ".")
}

func (t *toolchain) compile(ctx context.Context, dir, program, pkg string, flags ...string) error {
	args := slices.Concat([]string{"build"}, flags, []string{"-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", program, pkg})
	if _, err := t.run(ctx, dir, args...); err != nil {
		return fmt.Errorf("it does not compile: %w", err)
	}
	return nil
}

// fetchError makes one sentence of what the go command says when it cannot find
// a package. The command has no exit status of its own for that.
func fetchError(pkg, version string, err error) error {
	var failed *goError
	if !errors.As(err, &failed) {
		return err
	}
	for _, sign := range []string{
		"unknown revision", "no matching versions", "does not contain package", "cannot find module providing",
		"404 Not Found", "410 Gone", "unrecognized import path", "repository not found", "Repository not found", "malformed module path", "invalid version",
	} {
		if strings.Contains(failed.output, sign) {
			lines := strings.Split(strings.TrimSpace(failed.output), "\n")
			return fmt.Errorf("%w: there is no Go package %s at version %s (go says: %s)", ErrNotFound, pkg, version, lastLines(lines[len(lines)-1]))
		}
	}
	return fmt.Errorf("fetch %s@%s: %w", pkg, version, err)
}

// tail keeps the end of what is written to it, so that a program which says very
// much does not fill the memory.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	n, err := t.Buffer.Write(p)
	if over := t.Len() - 64<<10; over > 0 {
		t.Next(over)
	}
	return n, err
}
