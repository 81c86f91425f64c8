// Package base is what the commands of thv share: the App with streams, directories and
// stores, the selection of workloads, exit codes, and the forms of errors. The commands
// import it; it imports none of them.
package base

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/container/docker"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/oauthclient"
	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/secret/providers"
	"github.com/toolhaven/toolhaven/internal/settings"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// App holds the standard streams and the environment of a command line, and opens the
// parts of the domain when they are first used.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string
	Debug    bool
	JSON     bool // -o json
	// PasswordFile holds the password of the secrets store; "" is that of the environment.
	PasswordFile string
	// NewPasswordFile holds the password that the store is to have.
	NewPasswordFile string

	dirs    settings.Dirs
	engine  container.Engine
	secrets *providers.Secrets
	handed  *providers.Handover // in an owner
}

// NewApp returns the App of this process.
func NewApp() *App {
	return &App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv}
}

// Dirs returns the tool's directories.
func (a *App) Dirs() (settings.Dirs, error) {
	if a.dirs.State != "" {
		return a.dirs, nil
	}
	dirs, err := settings.Locate(a.Env)
	if err == nil {
		a.dirs = dirs
	}
	return dirs, err
}

// Store opens the store of workloads.
func (a *App) Store() (*manager.Store, error) {
	dirs, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	return manager.OpenStore(dirs.State, dirs.Runtime), nil
}

// SignIns opens the store of the user's sign-ins.
func (a *App) SignIns() (*oauthclient.Store, error) {
	dirs, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	secrets, err := a.Secrets()
	if err != nil {
		return nil, err
	}
	return oauthclient.Open(filepath.Join(dirs.State, "oauth"), secrets, a.Env), nil
}

// Engine connects to the container engine, once.
func (a *App) Engine(ctx context.Context) (container.Engine, error) {
	if a.engine != nil {
		return a.engine, nil
	}
	e, err := docker.Connect(ctx, a.Env)
	if err != nil {
		return nil, err
	}
	a.engine = e
	return e, nil
}

// Manager returns the Manager of the stored workloads.
func (a *App) Manager() (*manager.Manager, error) {
	store, err := a.Store()
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the executable of thv: %w", err)
	}
	return manager.New(manager.Config{
		Store: store, Engine: a.Engine, Executable: exe,
		Forget:   func(name string) error { return forgetSecrets(a, name) },
		Handover: func(ctx context.Context, spec *workload.Spec) ([]byte, error) { return handover(ctx, a, spec) },
	}), nil
}

// Config loads the tool's own configuration.
func (a *App) Config() (settings.Config, error) {
	dirs, err := a.Dirs()
	if err != nil {
		return settings.Config{}, err
	}
	return settings.Load(dirs)
}

// Catalog opens the configured registry. The user chose its address, so it may be a
// private one.
func (a *App) Catalog() (registry.Catalog, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	client, err := httpClient(15 * time.Second)
	if err != nil {
		return nil, err
	}
	tokens, err := newRegistryTokens(a, cfg.Registry)
	if err != nil {
		return nil, err
	}
	return registry.Open(cfg.Registry, client, tokens)
}

func httpClient(timeout time.Duration) (*http.Client, error) {
	return netguard.Client(netguard.Options{AllowPrivate: true, AllowLoopback: true, AllowHTTP: true, Redirects: 3, Timeout: timeout})
}
