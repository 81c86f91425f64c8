package owner

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/egress"
	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/guest/program"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/owner/hidden"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// instance is the container that a workload's server runs in. At most one container
// exists at any time; when it goes away, start makes another.
type instance struct {
	spec    *workload.Spec
	store   *manager.Store
	held    func() bool // whether the workload is still this process's
	engine  container.Engine
	secrets func(ref string) (string, error)
	stderr  io.Writer // the server's log
	notify  func(manager.Event)
	log     *slog.Logger
	image   *imageSource
	hidden  hidden.Paths
	// connections records the connections of an isolated server.
	connections *egress.Log

	mu   sync.Mutex
	line *guest.Line // nil while there is no container
	id   string
	argv []string // the server's command line
	// http is the one server process of an HTTP transport.
	http guest.Process
	// gone is what ended returns while there is a container.
	gone <-chan struct{}
	// logged is closed when all standard error of the container has been logged.
	logged chan struct{}
}

// errNoContainer: the container is being made again.
var errNoContainer = errors.New("the server's container is not running; it is being restarted")

// start makes the container, starts our guest in it and connects to it; for
// HTTP transports it starts the server too. The caller holds the workload, so
// whatever container carries its labels is a leftover and is removed first.
func (s *instance) start(ctx context.Context) (err error) {
	image, err := s.image.get(ctx)
	if err != nil {
		return err
	}
	if !s.held() {
		return manager.ErrLost // the containers may be another owner's
	}
	if err := s.removeLeftovers(ctx); err != nil {
		return err
	}
	pins, err := s.store.PinMounts(s.spec.Container.Mounts)
	if err != nil {
		return err
	}
	defer pins.Close()
	mounts, err := s.mounted(ctx, pins)
	if err != nil {
		return err
	}
	cfg, argv, err := s.config(image)
	if err != nil {
		return err
	}
	empty, err := s.hidden.Mounts(ctx, &s.spec.Container)
	if err != nil {
		return err
	}
	cfg.Mounts = append(cfg.Mounts, empty...)
	secretEnv, err := s.secretEnv()
	if err != nil {
		return err
	}
	user, err := s.user(ctx, image)
	if err != nil {
		return err
	}
	cfg = runAs(cfg, user)
	if cfg.Network == workload.SharedNetwork {
		if err := s.engine.EnsureNetwork(ctx, cfg.Network); err != nil {
			return err
		}
	}
	s.notify(manager.Event{Stage: "container", Message: "starting a container of " + s.image.ref})
	guestTar, err := program.Tar(image.Arch)
	if err != nil {
		return err
	}
	id, shortcut, err := s.create(ctx, cfg, image, mounts)
	if err != nil {
		return err
	}
	if shortcut != nil {
		defer shortcut.Close()
	}
	defer func() {
		if err != nil {
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
			defer cancel()
			err = errors.Join(err, s.engine.Remove(clean, id))
		}
	}()
	if err := s.engine.CopyTo(ctx, id, "/", guestTar); err != nil {
		return err
	}
	streams, err := s.engine.Attach(ctx, id)
	if err != nil {
		return err
	}
	logged := make(chan struct{})
	go func() {
		_, _ = io.Copy(s.stderr, streams.Stderr) // ends with the container
		close(logged)
	}()
	if err := s.engine.Start(ctx, id); err != nil {
		_ = streams.Close()
		return foreign(image, err)
	}
	line, err := s.connect(ctx, streams, shortcut)
	if err != nil {
		_ = streams.Close()
		return foreign(image, fmt.Errorf("connect to the container of %q: %w", s.spec.Name, err))
	}
	if err := s.isolate(ctx, line); err != nil {
		line.Close()
		return err
	}
	line.SetEnv(secretEnv)
	var server guest.Process
	if s.spec.Transport != workload.Stdio {
		if server, err = line.SpawnListener(ctx, argv); err != nil {
			line.Close()
			return fmt.Errorf("start the server: %w", err)
		}
		// An HTTP server's standard output is log.
		go func() { _, _ = io.Copy(s.stderr, server.Stdout()) }()
	}
	s.mu.Lock()
	s.line, s.id, s.argv, s.http, s.gone, s.logged = line, id, argv, server, endOf(line, server), logged
	s.mu.Unlock()
	return nil
}

// foreign is the error of a start, with the image's platform where the machine does not run its
// programs.
func foreign(image container.Image, err error) error {
	if !strings.Contains(err.Error(), "exec format error") {
		return err
	}
	return fmt.Errorf("the image is for %s/%s, which this engine does not run; pull it for the engine's own platform: %w", image.OS, image.Arch, err)
}

// removeLeftovers removes containers of an earlier life. One that has ended and
// that the engine cannot remove (it may hold on to its files for a while after a
// restart) is no obstacle: the next one has a name of its own.
func (s *instance) removeLeftovers(ctx context.Context) error {
	removeErr := manager.RemoveContainers(ctx, s.engine, s.store, s.spec.Name)
	if removeErr == nil {
		return nil
	}
	left, err := manager.Containers(ctx, s.engine, s.store, s.spec.Name)
	if err != nil {
		return errors.Join(removeErr, err)
	}
	for _, c := range left {
		if c.State == "running" || c.State == "paused" || c.State == "restarting" {
			return removeErr
		}
	}
	s.log.Warn("an ended container cannot be removed; going on without", "error", removeErr)
	return nil
}

// config is the container's configuration and the server's command line.
func (s *instance) config(image container.Image) (container.Config, []string, error) {
	var none container.Config
	command := image.Cmd
	if len(s.spec.Args) > 0 || len(image.Entrypoint) == 0 && len(image.Cmd) == 0 {
		command = s.spec.Args
	}
	argv := slices.Concat(image.Entrypoint, command)
	if len(argv) == 0 {
		return none, nil, fmt.Errorf("the image %s names no program to run; give one after --", s.spec.Image)
	}
	suffix := make([]byte, 3)
	rand.Read(suffix) // never fails (crypto/rand)
	c := s.spec.Container
	labels := maps.Clone(c.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[manager.LabelWorkload] = s.spec.Name
	labels[manager.LabelStore] = s.store.ID()
	labels[manager.LabelGroup] = s.spec.Group
	cfg := container.Config{
		// A name of its own for each container: one that the engine is slow
		// to forget is not in the way.
		Name:       "thv-" + s.spec.Name + "-" + hex.EncodeToString(suffix),
		Image:      image.ID,
		Entrypoint: []string{guest.Path},
		Env:        s.env(),
		Labels:     labels,
		Network:    s.spec.NetworkName(),
		Privileged: c.Permissions.Privileged,
		Memory:     c.Memory,
		Pids:       c.PIDsLimit,
		NanoCPUs:   int64(math.Round(c.CPUs * 1e9)),
	}
	if c.DiskLimit > 0 {
		cfg.Disk = c.DiskLimit
	}
	for _, m := range c.Mounts {
		cfg.Mounts = append(cfg.Mounts, container.Mount{Source: m.Host, Target: m.Container, ReadOnly: m.ReadOnly, Relabel: m.Relabel})
	}
	for _, p := range c.Publish {
		cfg.Publish = append(cfg.Publish, container.Port{HostIP: p.Address, HostPort: p.Host, ContainerPort: p.Container})
	}
	return cfg, argv, nil
}

// env is the server's environment beside the image's own, without secrets. The usual
// variables of HTTP servers are set first, so that a person can override them.
func (s *instance) env() []string {
	vars := map[string]string{"MCP_TRANSPORT": string(s.spec.Transport)}
	if s.spec.Transport != workload.Stdio {
		port := strconv.Itoa(s.spec.TargetPort)
		vars["MCP_PORT"], vars["FASTMCP_PORT"] = port, port
		vars["MCP_HOST"], vars["FASTMCP_HOST"] = s.spec.TargetHost, s.spec.TargetHost
	}
	maps.Copy(vars, s.spec.Env)
	for name := range s.spec.SecretEnv {
		delete(vars, name)
	}
	env := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}

// secretEnv is the part of the server's environment whose values are secrets. The guest
// sets it when it starts the server: the configuration of a container is shown to
// everyone who may use the engine.
func (s *instance) secretEnv() ([]string, error) {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(s.spec.SecretEnv)) {
		value, err := s.secrets(s.spec.SecretEnv[name])
		if err == nil {
			err = workload.ValidEnvValue(value)
		}
		if err != nil {
			return nil, fmt.Errorf("secret for %s: %w", name, err)
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}

// current is the line into the container, if there is one that is alive.
func (s *instance) current() (*guest.Line, []string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == nil {
		return nil, nil, errNoContainer
	}
	select {
	case <-s.line.Done():
		return nil, nil, errNoContainer
	default:
		return s.line, s.argv, nil
	}
}

// spawn starts one more server process, for a stdio backend.
func (s *instance) spawn(ctx context.Context) (guest.Process, error) {
	line, argv, err := s.current()
	if err != nil {
		return nil, err
	}
	return line.Spawn(ctx, argv)
}

// dial reaches the server's port inside the container, for an HTTP backend.
func (s *instance) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	line, _, err := s.current()
	if err != nil {
		return nil, err
	}
	return line.Dial(ctx, net.JoinHostPort(s.spec.TargetHost, strconv.Itoa(s.spec.TargetPort)))
}

// ended is closed when the container, or its one HTTP server, has ended.
func (s *instance) ended() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	return s.gone
}

// endOf is closed when server has ended, or, where there is none, the line.
func endOf(line *guest.Line, server guest.Process) <-chan struct{} {
	if server == nil {
		return line.Done()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Wait() // it returns too when the line ends
	}()
	return done
}

// why describes how the container or its server ended, for a person.
func (s *instance) why(ctx context.Context) string {
	s.mu.Lock()
	id, server, line := s.id, s.http, s.line
	s.mu.Unlock()
	if server != nil && line != nil {
		select {
		case <-line.Done():
		default:
			if err := server.Wait(); err != nil {
				return "the server ended: " + err.Error()
			}
			return "the server ended: exit status 0"
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if exit, err := s.engine.Wait(ctx, id); err == nil {
		if exit.OOMKilled {
			return "the container ran out of memory and was killed"
		}
		return fmt.Sprintf("the container ended with status %d", exit.Code)
	}
	return "the container engine no longer answers"
}

// tearDown ends the server and removes the container.
func (s *instance) tearDown(ctx context.Context) error {
	s.mu.Lock()
	line, id, logged := s.line, s.id, s.logged
	s.line, s.http, s.id = nil, nil, ""
	s.mu.Unlock()
	if line == nil {
		return nil
	}
	_ = line.HangUp() // the guest ends the server as MCP requires, and then itself
	defer line.Close()
	wait, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, _ = s.engine.Wait(wait, id) // Remove kills what is left
	err := s.engine.Remove(ctx, id)
	select {
	case <-logged:
	case <-wait.Done():
	}
	return err
}

// alive reports whether the container runs, and its one HTTP server if it has one.
func (s *instance) alive() bool {
	if _, _, err := s.current(); err != nil {
		return false
	}
	select {
	case <-s.ended():
		return false
	default:
		return true
	}
}
