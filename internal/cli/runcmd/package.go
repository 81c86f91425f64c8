package runcmd

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolhaven/toolhaven/internal/build"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// buildPackage makes the image of a Spec's package.
func buildPackage(ctx context.Context, app *base.App, engine container.Engine, s *workload.Spec, p *render.Progress) error {
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
			// Kept absolute: --from-config may run elsewhere.
			pkg.Name = filepath.Join(cwd, pkg.Name)
		}
		r.Name, r.Version, r.Dir = "", "", pkg.Name
	}
	result, err := app.Build(ctx, engine, r, p)
	if err != nil {
		return err
	}
	s.Image, pkg.Version = result.Image, result.Version
	return nil
}

func isLocalGo(p *workload.Package) bool {
	return p.Scheme == "go" && (strings.HasPrefix(p.Name, "./") || strings.HasPrefix(p.Name, "../") || p.Name == "." || p.Name == ".." || filepath.IsAbs(p.Name))
}
