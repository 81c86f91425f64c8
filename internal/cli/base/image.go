package base

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolhaven/toolhaven/internal/build"
	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Build builds the image of a package, or finds one built before.
func Build(ctx context.Context, a *App, engine container.Engine, r build.Request, progress func(manager.Event)) (build.Result, error) {
	dirs, err := a.Dirs()
	if err != nil {
		return build.Result{}, err
	}
	if r.CACert == "" {
		cfg, err := a.Config()
		if err != nil {
			return build.Result{}, err
		}
		r.CACert = cfg.CACert
	}
	b := build.New(build.Config{
		Engine: engine, StateDir: dirs.State, Env: a.Env,
		Log: func(e build.Event) { progress(manager.Event{Stage: "image", Message: e.Message}) },
	})
	return b.Build(ctx, r)
}

// BuildPackage builds the image of a Spec's package, or finds one built before.
func BuildPackage(ctx context.Context, a *App, engine container.Engine, s *workload.Spec, progress func(manager.Event)) error {
	pkg := s.Package
	r := build.Request{
		Scheme: pkg.Scheme, Name: pkg.Name, Version: pkg.Version,
		RuntimeImage: pkg.RuntimeImage, AddPackages: pkg.AddPackages, CACert: pkg.CACert,
	}
	if isLocalGo(pkg) {
		cwd, err := os.Getwd()
		if err != nil {
			return err
		}
		if !filepath.IsAbs(pkg.Name) {
			// Stored as an absolute path: --from-config may run in another directory.
			pkg.Name = filepath.Join(cwd, pkg.Name)
		}
		r.Name, r.Version, r.Dir = "", "", pkg.Name
	}
	result, err := Build(ctx, a, engine, r, progress)
	if err != nil {
		return err
	}
	s.Image, pkg.Version = result.Image, result.Version
	return nil
}

// isLocalGo reports whether a package is a directory with Go code.
func isLocalGo(p *workload.Package) bool {
	return p.Scheme == "go" && (strings.HasPrefix(p.Name, "./") || strings.HasPrefix(p.Name, "../") || p.Name == "." || p.Name == ".." || filepath.IsAbs(p.Name))
}
