package owner

import (
	"context"
	"runtime"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/guest"
)

// create makes the container, with its network to be shut and with a shortcut to it
// where there can be one. Neither is worth a server that does not run: an engine that
// is not of this machine does not find the shortcut's directory, another may not be
// allowed to give away what shutting takes; those get a container without. An isolated
// server never does.
func (s *instance) create(ctx context.Context, cfg container.Config, image container.Image, mounts []guest.Mounted) (string, *guest.Shortcut, error) {
	prepared, err := verified(setUp(cfg, image, s.spec.Isolated()), mounts)
	if err == nil {
		cfg, err = verified(cfg, mounts)
	}
	if err != nil {
		return "", nil, err
	}
	if shortcut := s.shortcut(); shortcut != nil {
		with := prepared
		with.Args = append(with.Args[:len(with.Args):len(with.Args)], guest.ShortcutSocket)
		with.Mounts = append(with.Mounts[:len(with.Mounts):len(with.Mounts)], container.Mount{Source: shortcut.Dir(), Target: guest.ShortcutDir, ReadOnly: true})
		id, err := s.engine.Create(ctx, with)
		if err == nil {
			return id, shortcut, nil
		}
		s.log.Debug("no shortcut to the container", "error", err)
		if err := shortcut.Close(); err != nil {
			s.log.Warn("the socket of a line to a container is left", "error", err)
		}
	}
	id, err := s.engine.Create(ctx, prepared)
	if err == nil || !prepared.SetUp || s.spec.Isolated() {
		return id, nil, err
	}
	plain, plainErr := s.engine.Create(ctx, cfg)
	if plainErr != nil {
		return "", nil, plainErr
	}
	s.log.Warn("the container's network is not closed to programs of this machine", "error", err)
	return plain, nil, nil
}

// shortcut is a socket for the container to come; nil when there can be none: only
// Linux has containers of its own.
func (s *instance) shortcut() *guest.Shortcut {
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
func (s *instance) connect(ctx context.Context, streams *container.Streams, shortcut *guest.Shortcut) (*guest.Line, error) {
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
