package owner

import (
	"context"
	"runtime"
	"slices"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/guest"
)

// create makes the container, with a shortcut to it where there can be one: an
// engine that is not of this machine does not find the directory, and gets a
// container without.
func (s *site) create(ctx context.Context, cfg container.Config) (string, *guest.Shortcut, error) {
	shortcut := s.shortcut()
	if shortcut == nil {
		id, err := s.engine.Create(ctx, cfg)
		return id, nil, err
	}
	with := cfg
	with.Args = append(slices.Clip(cfg.Args), guest.ShortcutSocket)
	with.Mounts = append(slices.Clip(cfg.Mounts), container.Mount{Source: shortcut.Dir(), Target: guest.ShortcutDir, ReadOnly: true})
	id, err := s.engine.Create(ctx, with)
	if err == nil {
		return id, shortcut, nil
	}
	s.log.Debug("no shortcut to the container", "error", err)
	if err := shortcut.Close(); err != nil {
		s.log.Warn("the socket of a line to a container is left", "error", err)
	}
	id, err = s.engine.Create(ctx, cfg)
	return id, nil, err
}

// shortcut is a socket for the container to come; nil when there can be none: only
// Linux has containers of its own.
func (s *site) shortcut() *guest.Shortcut {
	dir := s.store.LineDir(s.spec.Name)
	if runtime.GOOS != "linux" || dir == "" {
		return nil
	}
	shortcut, err := guest.OpenShortcut(dir)
	if err != nil {
		s.log.Warn("no shortcut to the container", "error", err)
		return nil
	}
	return shortcut
}

// connect opens the line to the guest in a container that has just started.
func (s *site) connect(ctx context.Context, streams *container.Streams, shortcut *guest.Shortcut) (guest.Host, error) {
	if shortcut == nil {
		return guest.Connect(streams.Stdin, streams.Stdout, streams.Close)
	}
	line, detour, err := guest.ConnectShortcut(ctx, streams.Stdin, streams.Stdout, streams.Close, shortcut)
	if err != nil {
		return nil, err
	}
	if detour != "" {
		s.log.Debug("the container takes no shortcut", "reason", detour)
	}
	return line, nil
}
