package base

import (
	"log/slog"
	"time"

	"github.com/toolhaven/toolhaven/internal/owner"
)

// EnvStartTimeout names the environment variable that says how long a server may
// take to its first answer, such as 2m.
const EnvStartTimeout = "THV_START_TIMEOUT"

// ownerConfig is what an owner of the named workload works with.
func (a *App) OwnerConfig(name string) (owner.Config, error) {
	store, err := a.Store()
	if err != nil {
		return owner.Config{}, err
	}
	secrets, err := a.Secrets()
	if err != nil {
		return owner.Config{}, err
	}
	cfg := owner.Config{Name: name, Store: store, Engine: a.Engine, Secrets: secrets.Get}
	level := slog.LevelInfo
	if spec, err := store.Get(name); err == nil && spec.Debug || a.Debug {
		level = slog.LevelDebug
	}
	cfg.LogLevel = level
	cfg.StartTimeout, err = a.StartTimeout()
	return cfg, err
}

// startTimeout is what the environment says of it; 0 when it says nothing. The
// commands that start workloads ask before they begin: the owner, which needs it, has
// no way to say that the command line is wrong.
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
