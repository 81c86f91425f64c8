package cli

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/owner"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// EnvStartTimeout names the environment variable that says how long a server may
// take to its first answer, such as 2m.
const EnvStartTimeout = "THV_START_TIMEOUT"

// newOwner is the hidden command that workload.Manager starts.
func newOwner(app *App) *cobra.Command {
	return &cobra.Command{
		Use:    "owner NAME",
		Short:  "Own a running workload (started by thv itself)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := app.ownerConfig(args[0])
			if err != nil {
				return err
			}
			defer owner.FitProcess()()
			// The starter may be gone when we speak of progress.
			signal.Ignore(syscall.SIGPIPE)
			return owner.Detached(cmd.Context(), cfg, os.Stdin, os.Stdout)
		},
	}
}

// ownerConfig is what an owner of the named workload works with.
func (a *App) ownerConfig(name string) (owner.Config, error) {
	store, err := a.Store()
	if err != nil {
		return owner.Config{}, err
	}
	secrets, err := a.Secrets()
	if err != nil {
		return owner.Config{}, err
	}
	cfg := owner.Config{Name: name, Store: store, Engine: a.Engine, Secrets: secrets.Get}
	cfg.Build = func(ctx context.Context, spec *workload.Spec, progress func(workload.Event)) error {
		engine, err := a.Engine(ctx)
		if err != nil {
			return err
		}
		return buildPackage(ctx, a, engine, spec, progress)
	}
	level := slog.LevelInfo
	if spec, err := store.Get(name); err == nil && spec.Debug || a.Debug {
		level = slog.LevelDebug
	}
	cfg.LogLevel = level
	cfg.StartTimeout, err = a.startTimeout()
	return cfg, err
}

// startTimeout is what the environment says of it; 0 when it says nothing. The
// commands that start workloads ask before they begin: the owner, which needs it, has
// no way to say that the command line is wrong.
func (a *App) startTimeout() (time.Duration, error) {
	text := a.Env(EnvStartTimeout)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, usage("%s is %q; it must be a time above zero, such as 90s or 3m", EnvStartTimeout, text)
	}
	return d, nil
}
