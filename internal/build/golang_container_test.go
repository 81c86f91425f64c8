//go:build integration

package build

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/test/local"
)

// goImage is what test/images/go.sh makes: the Go of this machine.
const goImage = "thv-test/go:1.26"

// withoutGo is a Builder on a machine that has no go command.
func withoutGo(t *testing.T, state string) *Builder {
	t.Helper()
	b := builder(t, state)
	b.cfg.Env = func(name string) string {
		switch name {
		case "PATH":
			return t.TempDir()
		case "GOROOT", "GOPATH", "GOCACHE", "GOMODCACHE":
			t.Errorf("%s, which is about this machine, was requested", name)
		}
		return os.Getenv(name)
	}
	return b
}

// noWorkshops: no builder's container may be left.
func noWorkshops(t *testing.T, b *Builder) {
	t.Helper()
	left, err := b.cfg.Engine.List(t.Context(), map[string]string{labelWorkshop: "go"})
	if err != nil || len(left) > 0 {
		t.Errorf("containers left: %+v, %v", left, err)
	}
}

func TestWithoutGoAPackageIsCompiledInAContainer(t *testing.T) {
	state := t.TempDir()
	b := withoutGo(t, state)
	r := ref(t, everything)
	r.RuntimeImage = goImage
	first := mustBuild(t, b, r)
	noWorkshops(t, b)
	initialize(t, first.Image)
	img, err := b.cfg.Engine.Image(t.Context(), first.Image)
	if err != nil || img.User != nonroot || first.Version != "v1.8.0" {
		t.Errorf("%+v, %+v, %v", first, img, err)
	}
	// It is the image that this machine's Go makes: from nothing, of the same
	// program, under the same name.
	if host := mustBuild(t, builder(t, t.TempDir()), ref(t, everything)); host.Image != first.Image || host.Built {
		t.Errorf("the host's Go makes %+v, a container %+v", host, first)
	}
	// The second time needs no proxy.
	offline(t)
	if again := mustBuild(t, withoutGo(t, state), r); again.Built || again.Image != first.Image {
		t.Errorf("the second build: %+v", again)
	}
	// And GOPROXY=off is honoured where a proxy would be needed.
	_, err = withoutGo(t, t.TempDir()).Build(t.Context(), r)
	if err == nil || !strings.Contains(err.Error(), "GOPROXY=off") {
		t.Errorf("with GOPROXY=off: %v", err)
	}
	noWorkshops(t, b)
}

func TestWithoutGoADirectoryIsCompiledInAContainer(t *testing.T) {
	const program = "package main\n\nimport \"example.com/lib\"\n\nfunc main() { print(lib.Word) }\n"
	const lib = "package lib\n\nconst Word = "
	dirs := map[string]string{
		"beside": local.Tree(t, map[string]string{
			"app/go.mod":          "module example.com/app\n\ngo 1.24\n\nrequire example.com/lib v0.0.0\n\nreplace example.com/lib => ../lib\n",
			"app/cmd/say/main.go": program, "lib/go.mod": "module example.com/lib\n\ngo 1.24\n", "lib/lib.go": lib + `"beside"`,
		}),
		"vendored": local.Tree(t, map[string]string{
			"app/go.mod":             "module example.com/app\n\ngo 1.24\n\nrequire example.com/lib v1.0.0\n",
			"app/vendor/modules.txt": "# example.com/lib v1.0.0\n## explicit; go 1.24\nexample.com/lib\n", "app/vendor/example.com/lib/lib.go": lib + `"vendored"`,
			"app/cmd/say/main.go": program,
		}),
		"workspace": local.Tree(t, map[string]string{
			"go.work": "go 1.24\n\nuse (\n\t./app\n\t./lib\n)\n", "app/go.mod": "module example.com/app\n\ngo 1.24\n", "app/cmd/say/main.go": program,
			"lib/go.mod": "module example.com/lib\n\ngo 1.24\n", "lib/lib.go": lib + `"workspace"`,
		}),
		"linked": local.Tree(t, map[string]string{
			"app/go.mod": "module example.com/app\n\ngo 1.24\n", "app/cmd/say/main.go": strings.ReplaceAll(program, "example.com/lib", "example.com/app/lib"),
			"app/lib/lib.go@": "../../elsewhere", "elsewhere": lib + `"linked"`,
		}),
	}
	absolute := local.Tree(t, map[string]string{"lib/go.mod": "module example.com/lib\n\ngo 1.24\n", "lib/lib.go": lib + `"absolute"`})
	dirs["absolute"] = local.Tree(t, map[string]string{
		"app/go.mod":          "module example.com/app\n\ngo 1.24\n\nrequire example.com/lib v0.0.0\n\nreplace example.com/lib => " + absolute + "/lib\n",
		"app/cmd/say/main.go": program,
	})
	for word, dir := range dirs {
		t.Run(word, func(t *testing.T) {
			b := withoutGo(t, t.TempDir())
			// A link to the directory, whose parent is another.
			link := filepath.Join(t.TempDir(), "say")
			if err := os.Symlink(filepath.Join(dir, "app", "cmd", "say"), link); err != nil {
				t.Fatal(err)
			}
			r := ref(t, "go://"+link)
			r.RuntimeImage = goImage
			res := mustBuild(t, b, r)
			out, err := exec.CommandContext(t.Context(), "docker", "run", "--rm", "--network=none", res.Image).CombinedOutput()
			if err != nil || string(out) != word || res.Version != "local" {
				t.Errorf("%+v printed %q, %v", res, out, err)
			}
			noWorkshops(t, b)
		})
	}
}

func TestACompilerErrorInAContainerIsReported(t *testing.T) {
	wrong := local.Tree(t, map[string]string{"go.mod": "module example.com/x\n\ngo 1.24\n", "main.go": "package main\n\nfunc main() { undefinedName() }\n"})
	library := local.Tree(t, map[string]string{"go.mod": "module example.com/x\n\ngo 1.24\n", "x.go": "package x\n"})
	nothing := local.Tree(t, map[string]string{"main.go": "package main\n"})
	for arg, want := range map[string]string{
		"go://" + wrong:   "undefined: undefinedName",
		"go://" + library: "a library",
		"go://" + nothing: "go.mod",
		"go://github.com/modelcontextprotocol/go-sdk/examples/server/nothing-here@v1.8.0": "there is no Go package",
	} {
		b := withoutGo(t, t.TempDir())
		r := ref(t, arg)
		r.RuntimeImage = goImage
		_, err := b.Build(t.Context(), r)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arg, err)
		}
		if strings.Contains(arg, "nothing-here") && !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", arg, err)
		}
		noWorkshops(t, b)
	}
	// An image without Go.
	b := withoutGo(t, t.TempDir())
	r := ref(t, everything)
	r.RuntimeImage = "thv-test/debian:bookworm"
	if _, err := b.Build(t.Context(), r); err == nil || !strings.Contains(err.Error(), `"go"`) || !strings.Contains(err.Error(), r.RuntimeImage) {
		t.Errorf("an image without Go: %v", err)
	}
	noWorkshops(t, b)
}

// privateProxy serves one module to clients with the password, over HTTPS with a
// certificate of an authority that no system trusts.
func privateProxy(t *testing.T, password string) (address, ca string) {
	t.Helper()
	host := bridgeAddress(t)
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	const mod = "module thv.example/private\n\ngo 1.24\n"
	var archive bytes.Buffer
	zw := zip.NewWriter(&archive)
	for name, text := range map[string]string{"go.mod": mod, "cmd/hello/main.go": "package main\n\nfunc main() { print(\"private\") }\n"} {
		w, err := zw.Create("thv.example/private@v1.0.0/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	const info = `{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}`
	files := map[string]string{
		"@v/list": "v1.0.0\n", "@latest": info, "@v/v1.0.0.info": info, "@v/v1.0.0.mod": mod, "@v/v1.0.0.zip": archive.String(),
	}
	cert, ca := issue(t, host)
	s := &httptest.Server{Listener: ln, Config: &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := files[strings.TrimPrefix(r.URL.Path, "/thv.example/private/")]
		switch _, given, _ := r.BasicAuth(); {
		case given != password:
			w.WriteHeader(http.StatusUnauthorized)
		case !ok:
			http.NotFound(w, r)
		default:
			_, _ = io.WriteString(w, text)
		}
	})}}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	return "https://me:" + password + "@" + ln.Addr().String(), ca
}

func TestAPrivateProxyBehindAPrivateAuthority(t *testing.T) {
	t.Parallel()
	const password = "verysecretpassword"
	address, ca := privateProxy(t, password)
	b := withoutGo(t, t.TempDir())
	inner := b.cfg.Env
	b.cfg.Env = func(name string) string {
		switch name {
		case "GOPROXY":
			return address
		case "GONOSUMDB":
			return "thv.example/*"
		}
		return inner(name)
	}
	r := ref(t, "go://thv.example/private/cmd/hello")
	r.RuntimeImage = goImage
	if _, err := b.Build(t.Context(), r); err == nil || !strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), password) {
		t.Errorf("without the authority: %v", err)
	}
	r.CACert = ca
	res := mustBuild(t, b, r)
	out, err := exec.CommandContext(t.Context(), "docker", "run", "--rm", "--network=none", res.Image).CombinedOutput()
	if err != nil || string(out) != "private" || res.Version != "v1.0.0" {
		t.Errorf("%+v printed %q, %v", res, out, err)
	}
	image, err := exec.CommandContext(t.Context(), "docker", "save", res.Image).Output()
	if err != nil || bytes.Contains(image, []byte(password)) {
		t.Errorf("the image, of %d bytes, holds the password, or %v", len(image), err)
	}
}

func TestACompilationThatIsStoppedLeavesNothing(t *testing.T) {
	b := withoutGo(t, t.TempDir())
	r := ref(t, everything)
	r.RuntimeImage = goImage
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		_, err := b.Build(ctx, r)
		done <- err
	}()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		all, err := b.cfg.Engine.List(t.Context(), map[string]string{labelWorkshop: "go"})
		if err == nil && len(all) == 1 && all[0].State == "running" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing is compiled: %v, %v", all, err)
		}
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	noWorkshops(t, b)
}

// A build whose process was killed leaves a container that has ended; the next
// one removes it.
func TestWhatAKilledBuildLeftIsRemoved(t *testing.T) {
	b := withoutGo(t, t.TempDir())
	id, err := b.cfg.Engine.Create(t.Context(), container.Config{Image: goImage, Entrypoint: []string{"true"}, Labels: map[string]string{labelWorkshop: "go"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.cfg.Engine.Remove(context.Background(), id) })
	if err := b.cfg.Engine.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := b.cfg.Engine.Wait(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	goBuilder{b.common}.sweepWorkshops(t.Context())
	noWorkshops(t, b)
}
