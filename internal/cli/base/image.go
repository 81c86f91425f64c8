package base

import (
	"context"

	"github.com/toolhaven/toolhaven/internal/build"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Build builds the image of a package, or finds one built before.
func (a *App) Build(ctx context.Context, engine container.Engine, r build.Request, p *render.Progress) (build.Result, error) {
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
		Log: func(e build.Event) { p.Event(workload.Event{Stage: "image", Message: e.Message}) },
	})
	return b.Build(ctx, r)
}
