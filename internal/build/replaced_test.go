package build

import (
	"archive/zip"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/toolhaven/toolhaven/internal/container"
)

// loader takes images, and runs none.
type loader struct {
	fakeEngine
	loaded int64 // bytes
}

func (l *loader) Load(_ context.Context, image io.Reader) error {
	n, err := io.Copy(io.Discard, image)
	l.loaded += n
	return err
}

func (l *loader) Image(ctx context.Context, ref string) (container.Image, error) {
	if l.loaded > 0 {
		return container.Image{ID: "sha256:loaded"}, nil
	}
	return l.fakeEngine.Image(ctx, ref)
}

// moduleProxy is a directory that GOPROXY can name, with one module. Its go.mod
// has a replace directive, for which `go install` refuses it.
func moduleProxy(t *testing.T) string {
	t.Helper()
	const goMod = "module thv.example/replaced\n\ngo 1.24\n\nreplace thv.example/other => ./other\n"
	dir := filepath.Join(t.TempDir(), "thv.example", "replaced", "@v")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"list": "v1.0.0\n", "v1.0.0.info": `{"Version":"v1.0.0"}`, "v1.0.0.mod": goMod} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(filepath.Join(dir, "v1.0.0.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zw := zip.NewWriter(f)
	for name, text := range map[string]string{
		"go.mod": goMod, "cmd/server/main.go": "package main\n\nfunc main() {}\n", "lib/lib.go": "package lib\n",
	} {
		w, err := zw.Create("thv.example/replaced@v1.0.0/" + name)
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
	return "file://" + filepath.ToSlash(filepath.Dir(filepath.Dir(filepath.Dir(dir))))
}

func TestAModuleWithAReplaceDirectiveIsCompiled(t *testing.T) {
	modules := t.TempDir()
	t.Cleanup(func() {
		// Its files are read-only, which only the go command gets round.
		cmd := exec.Command("go", "clean", "-modcache")
		cmd.Env = append(os.Environ(), "GOMODCACHE="+modules)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s, %v", out, err)
		}
	})
	set := map[string]string{"GOPROXY": moduleProxy(t), "GOSUMDB": "off", "GOMODCACHE": modules, "GOTOOLCHAIN": "local"}
	engine := &loader{fakeEngine: fakeEngine{images: map[string]string{}}}
	b := New(Config{Engine: engine, StateDir: t.TempDir(), Env: func(k string) string {
		if v, ok := set[k]; ok {
			return v
		}
		return os.Getenv(k)
	}})
	r := Request{Scheme: "go", Name: "thv.example/replaced/cmd/server"}
	res, err := b.Build(t.Context(), r)
	if err != nil || !res.Built || res.Version != "v1.0.0" || engine.loaded < 1<<19 {
		t.Fatalf("%+v, %v, %d bytes", res, err, engine.loaded)
	}
	r.Name = "thv.example/replaced/lib"
	if res, err := b.Build(t.Context(), r); err == nil {
		t.Errorf("a library became %+v", res)
	}
}
