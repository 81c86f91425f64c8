package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/build/gosource"
	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/guest/program"
)

// defaultGo compiles where this machine has no Go.
const defaultGo = "golang:1.26"

// Where things are in a builder's container.
const (
	workshop       = "/.thv/go"
	workshopModule = workshop + "/module"
	workshopBinary = workshop + "/program"
	workshopCerts  = workshop + "/ca.crt"
)

// Bounds of a builder's container. The Go linker takes some gigabytes for a large
// program, and each of the compilers running at once has threads of its own.
const (
	workshopMemory = 8 << 30
	workshopPids   = 8192
)

// labelWorkshop marks builders' containers, which are removed when they are done,
// or by the next one when this process was killed meanwhile.
const labelWorkshop = "dev.toolhaven.build"

// containerCommand is the go command of a builder image, in a container of it.
// Our guest is PID 1 there, as in every container of ours: each run is a process
// it starts, no shell is needed, and when this process ends so does the container.
// Nothing of the container outlives the build: no stage, no layer, no cache.
type containerCommand struct {
	engine  container.Engine
	image   string // as the person names it
	id      string
	line    *guest.Line
	stderr  lockedTail
	drained chan struct{} // closed when all standard error was received
	ended   sync.Once
}

// lockedTail is a tail that several goroutines may use.
type lockedTail struct {
	mu   sync.Mutex
	tail tail
}

func (t *lockedTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tail.Write(p)
}

func (t *lockedTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tail.String()
}

func (t *lockedTail) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tail.Reset()
}

func (b goBuilder) containerToolchain(ctx context.Context, r Request, img container.Image, arch string, certs []byte) (_ *toolchain, err error) {
	b.sweepWorkshops(ctx)
	env := slices.Concat(b.env().entries(goWays[:]...), goTarget(arch), []string{
		"HOME=" + workshop, "GOPATH=" + workshop + "/path", "GOMODCACHE=" + workshop + "/path/mod", "GOCACHE=" + workshop + "/cache", "GOTMPDIR=" + workshop + "/tmp", "GOENV=off",
	})
	source, gowork := "", "off"
	if r.Dir != "" {
		// Below a path with a link in it, ".." leads elsewhere.
		if source, err = filepath.EvalSymlinks(r.Dir); err != nil {
			return nil, fmt.Errorf("find the package: %w", err)
		}
		gowork = b.cfg.Env("GOWORK")
	}
	switch gowork {
	case "":
	case "off":
		env = append(env, "GOWORK=off")
	default:
		env = append(env, "GOWORK="+gosource.InContainer(gowork))
	}
	if len(certs) > 0 {
		env = append(env, "SSL_CERT_FILE="+workshopCerts, "GIT_SSL_CAINFO="+workshopCerts)
	}
	guestTar, err := program.Tar(img.Arch)
	if err != nil {
		return nil, err
	}
	limits := container.Config{Memory: workshopMemory, Pids: workshopPids}
	if info, err := b.cfg.Engine.Info(ctx); err != nil {
		return nil, err
	} else if !info.LimitsMemory || !info.LimitsProcesses {
		limits = container.Config{} // what it compiles runs without limits there, too
	}
	c := &containerCommand{engine: b.cfg.Engine, image: baseImage(r), drained: make(chan struct{})}
	c.id, err = c.engine.Create(ctx, container.Config{
		Image: img.ID, Entrypoint: []string{guest.Path}, Env: env, Labels: map[string]string{labelWorkshop: "go"},
		Memory: limits.Memory, Pids: limits.Pids,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if err := c.engine.CopyTo(ctx, c.id, "/", guestTar); err != nil {
		return nil, err
	}
	if err := c.furnish(ctx, source, certs, gowork); err != nil {
		return nil, err
	}
	streams, err := c.engine.Attach(ctx, c.id)
	if err != nil {
		return nil, err
	}
	go func() {
		_, _ = io.Copy(&c.stderr, streams.Stderr) // ends with the container
		close(c.drained)
	}()
	if err := c.engine.Start(ctx, c.id); err != nil {
		_ = streams.Close()
		return nil, err
	}
	if c.line, err = guest.Connect(streams.Stdin, streams.Stdout, streams.Close); err != nil {
		_ = streams.Close()
		return nil, fmt.Errorf("connect to the container that builds: %w", err)
	}
	return &toolchain{goCommand: c, source: source, module: workshopModule, program: workshopBinary}, nil
}

// furnish puts what is needed into the container: directories that any user may
// write to, certificates, and the person's code.
func (c *containerCommand) furnish(ctx context.Context, source string, certs []byte, gowork string) error {
	files := []file{{name: inTar(workshop) + "/", dir: true, mode: 0o1777}}
	for _, dir := range []string{"module", "path", "cache", "tmp"} {
		files = append(files, file{name: inTar(workshop) + "/" + dir + "/", dir: true, mode: 0o1777})
	}
	if len(certs) > 0 {
		files = append(files, file{name: inTar(workshopCerts), content: certs})
	}
	tree, err := packTree(files)
	if err != nil {
		return err
	}
	if err := c.engine.CopyTo(ctx, c.id, "/", tree); err != nil {
		return err
	}
	if source == "" {
		return nil
	}
	roots, err := gosource.Roots(source, gowork)
	if err != nil {
		return err
	}
	reader, w := io.Pipe()
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		w.CloseWithError(gosource.Pack(w, roots))
	}()
	err = c.engine.CopyTo(ctx, c.id, "/", reader)
	reader.CloseWithError(io.ErrClosedPipe)
	<-packed
	return err
}

// inTar is an absolute path as tars write it.
func inTar(path string) string { return strings.TrimPrefix(path, "/") }

func (c *containerCommand) run(ctx context.Context, dir string, args ...string) (string, error) {
	n := 1
	if args[0] == "mod" {
		n = 2
	}
	// -C comes right after the subcommand (go help build).
	argv := slices.Concat([]string{"go"}, args[:n], []string{"-C", gosource.InContainer(dir)}, args[n:])
	c.stderr.Reset()
	var stdout tail
	err := c.spawn(ctx, argv, &stdout)
	if err == nil {
		return stdout.String(), nil
	}
	if ctxErr := context.Cause(ctx); ctxErr != nil {
		return "", fmt.Errorf("go %s was stopped: %w", args[0], ctxErr)
	}
	c.end() // so that all of its output was received
	if output := c.stderr.String(); output != "" {
		return "", &goError{err: err, output: output}
	}
	return "", fmt.Errorf("go %s in a container of %s: %w", args[0], c.image, err)
}

// spawn runs a command in the container to its end.
func (c *containerCommand) spawn(ctx context.Context, argv []string, stdout io.Writer) error {
	p, err := c.line.Spawn(ctx, argv)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = p.Stop(ctx) })()
	_ = p.Stdin().Close() // there is none
	if _, err := io.Copy(stdout, p.Stdout()); err != nil {
		_ = p.Stop(ctx)
		return err
	}
	return p.Wait()
}

func (c *containerCommand) fetch(ctx context.Context, to string) error {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("take the compiled program: %w", err)
	}
	err = c.spawn(ctx, []string{"cat", workshopBinary}, &bounded{w: f, left: maxProgram})
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("take the compiled program out of the container: %w", err)
	}
	return nil
}

// bounded takes so many bytes and then refuses.
type bounded struct {
	w    io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, fmt.Errorf("it is larger than %d bytes", maxProgram)
	}
	return b.w.Write(p)
}

// end ends what runs in the container, and waits until its output was received.
func (c *containerCommand) end() {
	c.ended.Do(func() {
		if c.line == nil {
			return
		}
		_ = c.line.HangUp()
		select {
		case <-c.drained:
		case <-time.After(10 * time.Second):
		}
		_ = c.line.Close()
	})
}

// close removes the container.
func (c *containerCommand) close() {
	c.end()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_ = c.engine.Remove(ctx, c.id) // the next build tries again
}

// sweepWorkshops removes containers of builds that were killed. One that runs belongs
// to a build that goes on.
func (b goBuilder) sweepWorkshops(ctx context.Context) {
	left, err := b.cfg.Engine.List(ctx, map[string]string{labelWorkshop: "go"})
	if err != nil {
		return // the build itself fails for the same reason
	}
	for _, c := range left {
		if c.State == "exited" || c.State == "dead" {
			_ = b.cfg.Engine.Remove(ctx, c.ID)
		}
	}
}
