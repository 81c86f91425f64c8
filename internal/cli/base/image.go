package base

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolhaven/toolhaven/internal/build"
	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/upgrade"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Build builds the image of a package, or finds one built before.
func Build(ctx context.Context, a *App, engine container.Engine, r build.Request, progress func(manager.Event)) (build.Result, error) {
	b, err := newBuilder(a, engine, &r, progress)
	if err != nil {
		return build.Result{}, err
	}
	result, err := b.Build(ctx, r)
	if err != nil || result.Replaced == "" {
		return result, err
	}
	if store, err := a.Store(); err == nil {
		upgrade.Drop(ctx, store, b, result.Replaced)
	}
	return result, nil
}

// Upgrader returns what looks the names of workloads up again.
func (a *App) Upgrader() (*upgrade.Upgrader, error) {
	store, err := a.Store()
	if err != nil {
		return nil, err
	}
	m, err := a.Manager()
	if err != nil {
		return nil, err
	}
	return &upgrade.Upgrader{
		Store: store, Manager: m, Engine: a.Engine, Catalog: a.Catalog, Builder: a.Builder,
		Build: func(ctx context.Context, spec *workload.Spec, refresh bool, progress func(manager.Event)) error {
			engine, err := a.Engine(ctx)
			if err != nil {
				return err
			}
			return BuildPackage(ctx, a, engine, spec, refresh, progress)
		},
		Verify: func(ctx context.Context, spec *workload.Spec, progress func(manager.Event)) (upgrade.Verified, error) {
			engine, err := a.Engine(ctx)
			if err != nil {
				return upgrade.Verified{}, err
			}
			v, err := a.VerifyImage(ctx, engine, spec, progress)
			for _, n := range v.Notices {
				fmt.Fprintln(a.Err, "Note:", plaintext.Lines(n))
			}
			return upgrade.Verified{Ref: v.Ref, Digest: v.result.Digest, Signer: v.result.Signer}, err
		},
		Newest: func(ctx context.Context, pkg workload.Package) (string, error) {
			engine, err := a.Engine(ctx)
			if err != nil {
				return "", err
			}
			return PackageVersion(ctx, a, engine, pkg)
		},
	}, nil
}

// Builder returns a Builder, for the images that were built here.
func (a *App) Builder(ctx context.Context) (*build.Builder, error) {
	engine, err := a.Engine(ctx)
	if err != nil {
		return nil, err
	}
	return newBuilder(a, engine, &build.Request{}, func(manager.Event) {})
}

// newBuilder makes a Builder, and completes a request from the tool's configuration.
func newBuilder(a *App, engine container.Engine, r *build.Request, progress func(manager.Event)) (*build.Builder, error) {
	dirs, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	if r.CACert == "" {
		cfg, err := a.Config()
		if err != nil {
			return nil, err
		}
		r.CACert = cfg.CACert
	}
	store, err := a.Store()
	if err != nil {
		return nil, err
	}
	return build.New(build.Config{
		Engine: engine, StateDir: dirs.State, Store: store.ID(), Env: a.Env,
		Log: func(e build.Event) { progress(manager.Event{Stage: "image", Message: e.Message}) },
	}), nil
}

// BuildPackage builds the image of a Spec's package, or finds one built before. With
// refresh, a package without an exact version is looked up again.
func BuildPackage(ctx context.Context, a *App, engine container.Engine, s *workload.Spec, refresh bool, progress func(manager.Event)) error {
	pkg := s.Package
	r, err := packageRequest(pkg)
	if err != nil {
		return err
	}
	r.Refresh = refresh
	result, err := Build(ctx, a, engine, r, progress)
	if err != nil {
		return err
	}
	s.Image, pkg.Version = result.Image, result.Version
	return nil
}

// PackageVersion returns the version that a package means now. Nothing is built.
func PackageVersion(ctx context.Context, a *App, engine container.Engine, pkg workload.Package) (string, error) {
	r, err := packageRequest(&pkg)
	if err != nil {
		return "", err
	}
	b, err := newBuilder(a, engine, &r, func(manager.Event) {})
	if err != nil {
		return "", err
	}
	return b.Resolve(ctx, r)
}

// packageRequest is the request for a package. The path of a directory is made absolute.
func packageRequest(pkg *workload.Package) (build.Request, error) {
	r := build.Request{
		Scheme: pkg.Scheme, Name: pkg.Name, Version: pkg.Version,
		RuntimeImage: pkg.RuntimeImage, AddPackages: pkg.AddPackages, CACert: pkg.CACert,
	}
	if !isLocalGo(pkg) {
		return r, nil
	}
	cwd, err := os.Getwd()
	if err != nil {
		return r, err
	}
	if !filepath.IsAbs(pkg.Name) {
		// Stored as an absolute path: --from-config may run in another directory.
		pkg.Name = filepath.Join(cwd, pkg.Name)
	}
	r.Name, r.Version, r.Dir = "", "", pkg.Name
	return r, nil
}

// isLocalGo reports whether a package is a directory with Go code.
func isLocalGo(p *workload.Package) bool {
	return p.Scheme == "go" && (strings.HasPrefix(p.Name, "./") || strings.HasPrefix(p.Name, "../") || p.Name == "." || p.Name == ".." || filepath.IsAbs(p.Name))
}
