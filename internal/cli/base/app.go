// Package cli is the command `thv`: one file for each command, which turns flags
// into options, makes one call into the domain, and renders the outcome. No
// decision about workloads is made here.
//
// Standard output carries what was asked for and nothing else; progress, notices
// and errors go to standard error. Exit codes are in exit.go.
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
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/oauthclient"
	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/settings"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// App is what the commands share: the standard streams, the environment, and the
// parts of the domain, made when a command first asks for them.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string
	Debug    bool
	JSON     bool // -o json

	dirs   settings.Dirs
	engine container.Engine
}

// NewApp makes the App of this process.
func NewApp() *App {
	return &App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv}
}

// Dirs are the tool's directories.
func (a *App) Dirs() (settings.Dirs, error) {
	if a.dirs.State != "" {
		return a.dirs, nil
	}
	dirs, err := settings.Locate(a.Env)
	if err != nil {
		return dirs, fmt.Errorf("%w; set HOME", err)
	}
	a.dirs = dirs
	return dirs, nil
}

// Store is where workloads are kept.
func (a *App) Store() (*workload.Store, error) {
	dirs, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	return workload.OpenStore(dirs.State, dirs.Runtime), nil
}

// Secrets is where secret values are kept.
func (a *App) Secrets() (*secret.Store, error) {
	dirs, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	return secret.Open(filepath.Join(dirs.State, "secrets")), nil
}

// SignIns is where the person's sign-ins are kept.
func (a *App) SignIns() (*oauthclient.Store, error) {
	dirs, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	return oauthclient.Open(filepath.Join(dirs.State, "oauth"), a.Env), nil
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

// Manager carries out the commands on workloads.
func (a *App) Manager() (*workload.Manager, error) {
	store, err := a.Store()
	if err != nil {
		return nil, err
	}
	secrets, err := a.Secrets()
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program of thv itself: %w", err)
	}
	return workload.NewManager(workload.ManagerConfig{
		Store: store, Engine: a.Engine, Executable: exe, Forget: secrets.Forget,
	}), nil
}

// Config is the tool's own configuration.
func (a *App) Config() (settings.Config, error) {
	dirs, err := a.Dirs()
	if err != nil {
		return settings.Config{}, err
	}
	return settings.Load(dirs)
}

// Catalog is the registry that the configuration names. The person chose its
// address, so a private one is fine.
func (a *App) Catalog() (registry.Catalog, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	client, err := a.httpClient(15 * time.Second)
	if err != nil {
		return nil, err
	}
	tokens, err := a.registryTokens(cfg.Registry)
	if err != nil {
		return nil, err
	}
	return registry.OpenProtected(cfg.Registry, client, tokens)
}

func (a *App) httpClient(timeout time.Duration) (*http.Client, error) {
	return netguard.Client(netguard.Options{AllowPrivate: true, AllowLoopback: true, AllowHTTP: true, Redirects: 3, Timeout: timeout})
}
