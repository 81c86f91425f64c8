// Package docker is the container engine over the Docker Engine API, as Docker
// and, through its compatible socket, Podman serve it. It is the only package
// that imports the engine's client.
//
// [Connect] finds an engine; the [Engine] it returns implements
// container.Engine. API versions from 1.40 on are spoken, negotiated with the
// engine.
package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/toolhaven/toolhaven/internal/container"
)

// Engine is one engine that has answered. Create it with [Connect].
type Engine struct {
	api     *client.Client
	address string
	env     func(string) string
}

var _ container.Engine = (*Engine)(nil)

// Close releases idle connections.
func (e *Engine) Close() error { return e.api.Close() }

// Info asks the engine who it is.
func (e *Engine) Info(ctx context.Context) (container.Info, error) {
	v, err := e.api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return container.Info{}, e.wrap(err, "ask the container engine for its version")
	}
	info := container.Info{
		Name: "Docker", Version: v.Version, APIVersion: e.api.ClientVersion(),
		OS: v.Os, Arch: v.Arch, Socket: e.address,
	}
	for _, c := range v.Components {
		if strings.HasPrefix(c.Name, "Podman") {
			info.Name, info.Version = "Podman", c.Version
		}
	}
	if sys, err := e.api.Info(ctx, client.InfoOptions{}); err == nil {
		for _, opt := range sys.Info.SecurityOptions {
			info.Rootless = info.Rootless || strings.Contains(opt, "rootless")
		}
	}
	return info, nil
}

// EnsureNetwork creates the bridge network unless it exists. Containers on it
// cannot reach each other (the bridge driver's enable_icc).
func (e *Engine) EnsureNetwork(ctx context.Context, name string) error {
	_, err := e.api.NetworkInspect(ctx, name, client.NetworkInspectOptions{})
	if err == nil {
		return nil
	}
	if !errdefs.IsNotFound(err) {
		return e.wrap(err, "look for network %q", name)
	}
	created, err := e.api.NetworkCreate(ctx, name, client.NetworkCreateOptions{
		Driver:  "bridge",
		Options: map[string]string{"com.docker.network.bridge.enable_icc": "false"},
		Labels:  map[string]string{"dev.toolhaven.network": "true"},
	})
	if errdefs.IsConflict(err) {
		return nil // made by another process meanwhile
	}
	if err != nil {
		return e.wrap(err, "create network %q", name)
	}
	return e.dropTwin(ctx, name, created.ID)
}

// dropTwin: engines before 1.44 accept two networks of one name when two
// creations race; containers could then not be attached by name. The younger
// one goes.
func (e *Engine) dropTwin(ctx context.Context, name, ours string) error {
	list, err := e.api.NetworkList(ctx, client.NetworkListOptions{Filters: client.Filters{}.Add("name", name)})
	if err != nil {
		return e.wrap(err, "list networks")
	}
	for _, n := range list.Items {
		if n.Name == name && n.ID != ours {
			if _, err := e.api.NetworkRemove(ctx, ours, client.NetworkRemoveOptions{}); err != nil && !errdefs.IsNotFound(err) {
				return e.wrap(err, "remove the second network %q", name)
			}
			return nil
		}
	}
	return nil
}

// wrap says what was being done, and gives the errors that callers decide on.
func (e *Engine) wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	doing := fmt.Sprintf(format, args...)
	var dial *net.OpError
	switch {
	case client.IsErrConnectionFailed(err), errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%s: %w: %s does not answer any more", doing, container.ErrUnavailable, e.address)
	case errdefs.IsNotFound(err):
		return fmt.Errorf("%s: %w: %s", doing, container.ErrNotFound, message(err))
	}
	return fmt.Errorf("%s: %w", doing, &engineError{cause: err})
}

// engineError shows an engine's error without the client's prefix.
type engineError struct{ cause error }

func (e *engineError) Error() string { return message(e.cause) }
func (e *engineError) Unwrap() error { return e.cause }

func message(err error) string {
	return strings.TrimPrefix(err.Error(), "Error response from daemon: ")
}
