package build

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/netguard"
)

// maxProgram bounds a compiled program, in bytes.
const maxProgram = 1 << 30

// goBuilder makes the images of Go packages.
type goBuilder struct{ common }

// make compiles with the host's Go, or with that of a builder image, and packs
// the program into an image from nothing, or with packages of a distribution beside it.
func (b goBuilder) make(ctx context.Context, r Request, k recordKey) (made, error) {
	work, err := b.newWork()
	if err != nil {
		return made{}, err
	}
	defer os.RemoveAll(work)
	certs, err := b.env().certificates(r.CACert)
	if err != nil {
		return made{}, err
	}
	if err := mayCompile(r.Dir); err != nil {
		return made{}, err
	}
	tool, base, err := b.toolchain(ctx, r, k.Arch, work, certs)
	if err != nil {
		return made{}, err
	}
	defer tool.close()
	program := filepath.Join(work, "server")
	var version string
	name := r.Name
	if r.Dir != "" {
		b.report("compiling the Go package in %s", r.Dir)
		name, version = filepath.Base(r.Dir), LocalVersion
		err = tool.compileDir(ctx)
	} else {
		b.report("fetching and compiling %s", r)
		version, err = tool.compilePackage(ctx, r)
	}
	if err == nil {
		err = tool.fetch(ctx, program)
	}
	if err != nil {
		return made{}, err
	}
	content, err := hashFile(program)
	if err != nil {
		return made{}, err
	}
	what := inputs{
		Recipe: recipe, Scheme: r.Scheme, Name: name, Version: version, Arch: k.Arch, Args: r.Args,
		CA: hash(certs), Content: content,
	}
	if len(k.AddPackages) > 0 {
		what.AddPackages = k.AddPackages
		return b.besides(ctx, r, what, program, certs)
	}
	image, err := imageTag(what)
	if err != nil {
		return made{}, err
	}
	built, err := b.once(ctx, image, func() error {
		b.report("packing %s", image)
		img, err := scratch{program: program, certs: certs, arch: k.Arch, args: r.Args, labels: b.labels(r, version), work: work}.image()
		if err != nil {
			return err
		}
		return b.load(ctx, img, image)
	})
	if err != nil {
		return made{}, err
	}
	return made{image: image, version: version, base: base, built: built}, nil
}

// besides makes the image of a program on a base image, with packages beside it.
func (b goBuilder) besides(ctx context.Context, r Request, what inputs, program string, certs []byte) (made, error) {
	r.RuntimeImage = cmp.Or(r.RuntimeImage, defaultRuntime)
	base, err := b.base(ctx, r)
	if err != nil {
		return made{}, err
	}
	what.Base = base.ID
	image, err := imageTag(what)
	if err != nil {
		return made{}, err
	}
	in := installation{
		scheme: r.Scheme, name: what.Name, version: what.Version, base: r.RuntimeImage, program: program,
		packages: what.AddPackages, args: r.Args, certs: certs, keepCA: r.CACert != "", maker: b.cfg.Store,
	}
	built, err := b.once(ctx, image, func() error {
		b.report("installing %s on %s", strings.Join(in.packages, ", "), in.base)
		tree, err := in.context(in.imageFile(""), nil)
		if err != nil {
			return err
		}
		return b.build(ctx, in, container.Build{Context: tree, Tags: []string{image}, Labels: b.labels(r, what.Version)})
	})
	if err != nil {
		return made{}, err
	}
	return made{image: image, version: what.Version, base: base.ID, built: built}, nil
}

// newWork makes a directory to build in. One that a killed build leaves is removed by the
// next (sweep).
func (b goBuilder) newWork() (string, error) {
	if err := os.MkdirAll(b.workDir(), 0o700); err != nil {
		return "", fmt.Errorf("make a directory to build in: %w", err)
	}
	work, err := os.MkdirTemp(b.workDir(), "go-")
	if err != nil {
		return "", fmt.Errorf("make a directory to build in: %w", err)
	}
	return work, nil
}

// resolve finds the version that a request means, without compiling it.
func (b goBuilder) resolve(ctx context.Context, r Request, arch string) (version string, err error) {
	work, err := b.newWork()
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	certs, err := b.env().certificates(r.CACert)
	if err != nil {
		return "", err
	}
	tool, _, err := b.toolchain(ctx, r, arch, work, certs)
	if err != nil {
		return "", err
	}
	defer tool.close()
	return tool.require(ctx, r)
}

// mayCompile checks early that a directory exists; "" is none.
func mayCompile(dir string) error {
	if dir == "" {
		return nil
	}
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the directory %s does not exist", dir)
	case err != nil:
		return fmt.Errorf("inspect the directory: %w", err)
	case !st.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	}
	return nil
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

// toolchain is a go command, on this machine or in a container.
type toolchain struct {
	goCommand
	source  string // the directory of the package to compile, for Request.Dir
	module  string // an empty directory to make a module in
	program string // where a program is compiled to
}

// goCommand runs a go command. Paths are those of the system that it runs on.
type goCommand interface {
	// run runs it in a directory and returns what it prints. The error is a
	// goError when it is the command's own.
	run(ctx context.Context, dir string, args ...string) (string, error)
	// fetch brings the compiled program to a path on this machine.
	fetch(ctx context.Context, path string) error
	close()
}

// goError is a failed go command with its output.
type goError struct {
	err    error
	output string
}

func (e *goError) Error() string { return lastLines(e.output) }
func (e *goError) Unwrap() error { return e.err }

// toolchain is the host's Go, unless there is none or the request names an image
// to build with. base is the id of that image, "" for the host's.
func (b goBuilder) toolchain(ctx context.Context, r Request, arch, work string, certs []byte) (t *toolchain, base string, err error) {
	path := b.env().goCommand()
	if path != "" && r.RuntimeImage == "" {
		t, err := b.hostToolchain(path, r, arch, work, certs)
		return t, "", err
	}
	if path == "" && r.RuntimeImage == "" {
		b.report("no go command is in PATH; compiling in a container of %s (another image: --runtime-image)", baseImage(r))
	}
	img, err := b.base(ctx, r)
	if err != nil && path == "" && r.RuntimeImage == "" {
		err = fmt.Errorf("no go command is in PATH (install Go: https://go.dev/dl), and none can be had in a container: %w", err)
	}
	if err != nil {
		return nil, "", err
	}
	t, err = b.containerToolchain(ctx, r, img, arch, certs)
	return t, img.ID, err
}

// compilePackage fetches and compiles a package of a published module. It is required
// by an empty module, because `go install package@version` refuses modules with
// replace directives.
func (t *toolchain) compilePackage(ctx context.Context, r Request) (version string, err error) {
	if version, err = t.require(ctx, r); err != nil {
		return "", err
	}
	return version, t.compile(ctx, t.module, r.Name, "-mod=mod")
}

// require has the module of the package fetched, and returns its version.
func (t *toolchain) require(ctx context.Context, r Request) (version string, err error) {
	dir := t.module
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
	return version, nil
}

// compileDir compiles the package in a directory of the user. It writes nothing there.
func (t *toolchain) compileDir(ctx context.Context) error {
	out, err := t.run(ctx, t.source, "list", "-f", "{{.Name}}", ".")
	if err != nil {
		return fmt.Errorf("%s is not a Go package that can be built: %w", t.source, err)
	}
	if kind := strings.TrimSpace(out); kind != "main" {
		return fmt.Errorf("%s holds Go package %q, a library: name the directory of a command (package main)", t.source, kind)
	}
	return t.compile(ctx, t.source, ".")
}

func (t *toolchain) compile(ctx context.Context, dir, pkg string, flags ...string) error {
	args := slices.Concat([]string{"build"}, flags, []string{"-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", t.program, pkg})
	if _, err := t.run(ctx, dir, args...); err != nil {
		return fmt.Errorf("it does not compile: %w", err)
	}
	return nil
}

// fetchError returns ErrNotFound with the last line of the go command's output when
// the command cannot find a package. It has no exit status of its own for that.
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
			return fmt.Errorf("%w: there is no Go package %s at version %s (go: %s)", ErrNotFound, pkg, version, lastLines(lines[len(lines)-1]))
		}
	}
	return fmt.Errorf("fetch %s@%s: %w", pkg, version, err)
}

// tail keeps the last 64 KiB written to it, so that a program with much output does not
// fill the memory. The buffer is not embedded: io.Copy would call its ReadFrom and not
// Write.
type tail struct{ kept bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	n, err := t.kept.Write(p)
	if over := t.kept.Len() - 64<<10; over > 0 {
		t.kept.Next(over)
	}
	return n, err
}

func (t *tail) String() string { return t.kept.String() }

func (t *tail) Reset() { t.kept.Reset() }
