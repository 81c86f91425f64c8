package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/build"
	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/workload"
)

type buildOptions struct {
	ref, tag, runtimeImage, caCert string
	args, addPackages              []string
	refresh                        bool
}

func newBuild(app *App) *cobra.Command {
	o := &buildOptions{}
	cmd := &cobra.Command{
		Use:   "build [flags] PACKAGE [-- ARGS...]",
		Short: "Make an image from a package, without running it",
		Long: `Build makes the image that run would make of a package and prints its name. The
image needs no network to start. Arguments after -- become part of it.`,
		Example: `  thv build npx://@modelcontextprotocol/server-everything
  thv build uvx://mcp-server-time@2026.1.26 --tag registry.example.com/time:1
  thv build go://./cmd/server -- --verbose`,
		Args: func(cmd *cobra.Command, args []string) error {
			before := cmd.ArgsLenAtDash()
			if before < 0 {
				before = len(args)
			}
			if before != 1 {
				return fmt.Errorf("name one package: npx://NAME, uvx://NAME or go://PATH")
			}
			o.ref, o.args = args[0], args[1:]
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return runBuild(cmd.Context(), app, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.tag, "tag", "", "Another name for the image")
	f.StringVar(&o.runtimeImage, "runtime-image", "", "Override the base image; for go, the image that compiles")
	f.StringSliceVar(&o.addPackages, "runtime-add-package", nil, "Extra packages in builder and runtime stages; repeatable")
	f.StringVar(&o.caCert, "ca-cert", "", "Custom CA certificate file for the build")
	f.BoolVar(&o.refresh, "refresh", false, "Look for a newer version of a package given without one")
	outputFlag(cmd, app)
	return cmd
}

func runBuild(ctx context.Context, app *App, o *buildOptions) error {
	r, err := build.ParseRef(o.ref)
	if err != nil {
		return asUsage(err)
	}
	r.Args, r.Tag, r.RuntimeImage, r.AddPackages, r.CACert, r.Refresh = o.args, o.tag, o.runtimeImage, o.addPackages, o.caCert, o.refresh
	engine, err := app.Engine(ctx)
	if err != nil {
		return err
	}
	p := newProgress(app.Err)
	defer p.done()
	result, err := app.build(ctx, engine, r, p.event)
	if err != nil {
		return err
	}
	p.done()
	if app.JSON {
		return writeJSON(app.Out, map[string]any{"image": result.Image, "version": result.Version, "built": result.Built})
	}
	fmt.Fprintln(app.Out, result.Image)
	return nil
}

func (a *App) build(ctx context.Context, engine container.Engine, r build.Request, progress func(workload.Event)) (build.Result, error) {
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
		Log: func(e build.Event) { progress(workload.Event{Stage: "image", Message: e.Message}) },
	})
	return b.Build(ctx, r)
}

// buildPackage makes the image of a Spec's package.
func buildPackage(ctx context.Context, app *App, engine container.Engine, s *workload.Spec, progress func(workload.Event)) error {
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
	result, err := app.build(ctx, engine, r, progress)
	if err != nil {
		return err
	}
	s.Image, pkg.Version = result.Image, result.Version
	return nil
}

func isLocalGo(p *workload.Package) bool {
	return p.Scheme == "go" && (strings.HasPrefix(p.Name, "./") || strings.HasPrefix(p.Name, "../") || p.Name == "." || p.Name == ".." || filepath.IsAbs(p.Name))
}
