package base

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/overlay"
	"github.com/toolhaven/toolhaven/internal/owner"
	"github.com/toolhaven/toolhaven/internal/owner/hidden"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// EnvStartTimeout is the environment variable with the time that a server has for its
// first response, such as 2m.
const EnvStartTimeout = "THV_START_TIMEOUT"

// OwnerConfig returns the configuration for the owner of a workload.
func (a *App) OwnerConfig(name string) (owner.Config, error) {
	store, err := a.Store()
	if err != nil {
		return owner.Config{}, err
	}
	secrets, err := a.AllSecrets()
	if err != nil {
		return owner.Config{}, err
	}
	signIns, err := a.SignIns()
	if err != nil {
		return owner.Config{}, err
	}
	paths, err := a.Hidden()
	if err != nil {
		return owner.Config{}, err
	}
	cfg := owner.Config{
		Name: name, Store: store, Engine: a.Engine, SignIns: signIns, Hidden: paths,
		Secrets: func(ref string) (string, error) { return secrets.Resolve(context.Background(), ref) },
	}
	cfg.Build = func(ctx context.Context, spec *workload.Spec, progress func(manager.Event)) error {
		engine, err := a.Engine(ctx)
		if err != nil {
			return err
		}
		return BuildPackage(ctx, a, engine, spec, false, progress)
	}
	level := slog.LevelInfo
	if spec, err := store.Get(name); err == nil && spec.Debug || a.Debug {
		level = slog.LevelDebug
	}
	cfg.LogLevel = level
	cfg.StartTimeout, err = a.StartTimeout()
	return cfg, err
}

// StartTimeout returns the value of EnvStartTimeout; 0 is the default. The commands that
// start workloads check it first: the owner, which uses it, cannot report a usage error.
func (a *App) StartTimeout() (time.Duration, error) {
	text := a.Env(EnvStartTimeout)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, Usage("%s is %q; it must be a time above zero, such as 90s or 3m", EnvStartTimeout, text)
	}
	return d, nil
}

// Hidden returns how paths in mounts are hidden.
func (a *App) Hidden() (hidden.Paths, error) {
	dirs, err := a.Dirs()
	return hidden.Paths{Global: filepath.Join(dirs.Config, overlay.GlobalName), Empty: filepath.Join(dirs.State, "empty")}, err
}
