// Package imagecmd has the commands on images: build, outdated, upgrade and prune.
package imagecmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/build"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
)

type buildOptions struct {
	app                            *base.App
	ref, tag, runtimeImage, caCert string
	args, addPackages              []string
	refresh                        bool
}

// Build is the command build.
func Build(app *base.App) *cobra.Command {
	o := &buildOptions{app: app}
	cmd := &cobra.Command{
		Use:   "build [flags] PACKAGE [-- ARGS...]",
		Short: "Build an image from a package, without running it",
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
		RunE: func(cmd *cobra.Command, _ []string) error { return runBuild(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.tag, "tag", "", "Another name for the image")
	f.StringVar(&o.runtimeImage, "runtime-image", "", "Override the base image; for go, the image that compiles")
	f.StringSliceVar(&o.addPackages, "runtime-add-package", nil, "Extra packages in builder and runtime stages; repeatable")
	f.StringVar(&o.caCert, "ca-cert", "", "Custom CA certificate file for the build")
	f.BoolVar(&o.refresh, "refresh", false, "Look for a newer version of a package given without one")
	base.OutputFlag(cmd, app)
	return cmd
}

func runBuild(ctx context.Context, o *buildOptions) error {
	app := o.app
	r, err := build.ParseRef(o.ref)
	if err != nil {
		return base.AsUsage(err)
	}
	r.Args, r.Tag, r.RuntimeImage, r.AddPackages, r.CACert, r.Refresh = o.args, o.tag, o.runtimeImage, o.addPackages, o.caCert, o.refresh
	engine, err := app.Engine(ctx)
	if err != nil {
		return err
	}
	p := render.NewProgress(app.Err, app.Env)
	defer p.Done()
	result, err := base.Build(ctx, app, engine, r, p.Event)
	if err != nil {
		return err
	}
	p.Done()
	if app.JSON {
		return render.JSON(app.Out, map[string]any{"image": result.Image, "version": result.Version, "built": result.Built})
	}
	fmt.Fprintln(app.Out, result.Image)
	return nil
}
