package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	ctr "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/toolhaven/toolhaven/internal/container"
)

// containers are the calls on an engine's containers.
type containers struct {
	*connection
	networks networks
}

// CopyTo unpacks a tar stream at path in a container that is not running.
func (s containers) CopyTo(ctx context.Context, id, path string, tar io.Reader) error {
	content := newSource(tar)
	_, err := s.api.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: path, Content: content})
	return s.wrap(content.blame(err), "copy into container %s", short(id))
}

// Start starts a container.
func (s containers) Start(ctx context.Context, id string) error {
	_, err := s.api.ContainerStart(ctx, id, client.ContainerStartOptions{})
	return s.wrap(err, "start container %s", short(id))
}

// Wait returns the exit status when the container is no longer running.
func (s containers) Wait(ctx context.Context, id string) (container.ExitStatus, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := s.api.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: ctr.WaitConditionNotRunning})
	select {
	case r := <-w.Result:
		if r.Error != nil && r.Error.Message != "" {
			return container.ExitStatus{}, s.wrap(errors.New(r.Error.Message), "wait for container %s", short(id))
		}
		status := container.ExitStatus{Code: int(r.StatusCode)}
		if c, err := s.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{}); err == nil && c.Container.State != nil {
			status.OOMKilled = c.Container.State.OOMKilled
		}
		return status, nil
	case err := <-w.Error:
		return container.ExitStatus{}, s.wrap(err, "wait for container %s", short(id))
	}
}

// removalWait bounds how long another's removal of a container is waited for.
const removalWait = 30 * time.Second

// Remove deletes a container, killing it if it runs, with its anonymous volumes
// and the network it has to itself.
func (s containers) Remove(ctx context.Context, id string) error {
	own := ""
	if s.podman.Load() { // see networks.own
		c, err := s.Inspect(ctx, id)
		if errors.Is(err, container.ErrNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("remove container %s: %w", short(id), err)
		}
		own = c.Labels[labelOwnNetwork]
	}
	err := s.remove(ctx, id)
	switch {
	case err == nil, errdefs.IsNotFound(err):
	case errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress"):
		if err := s.gone(ctx, id); err != nil {
			return err
		}
	default:
		return s.wrap(err, "remove container %s", short(id))
	}
	if own == "" {
		return nil
	}
	return s.wrap(s.networks.remove(ctx, own), "remove network %q of container %s", own, short(id))
}

// remove deletes a container. Podman refuses ("container state
// improper") when it ends between Podman's look at it and its signal to it, and is
// called again then.
func (s containers) remove(ctx context.Context, id string) error {
	for attempt := 1; ; attempt++ {
		_, err := s.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if err == nil || attempt == 10 || !strings.Contains(err.Error(), "container state improper") {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// gone waits until a container that another client is removing is gone.
func (s containers) gone(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, removalWait)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := s.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		if errdefs.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return s.wrap(err, "remove container %s", short(id))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("remove container %s: the engine is removing it already and does not finish: %w", short(id), ctx.Err())
		}
	}
}

// Inspect describes a container by name or id.
func (s containers) Inspect(ctx context.Context, id string) (container.Container, error) {
	r, err := s.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return container.Container{}, s.wrap(err, "inspect container %s", short(id))
	}
	in := r.Container
	c := container.Container{ID: in.ID, Name: strings.TrimPrefix(in.Name, "/")}
	if in.Config != nil {
		c.Labels = in.Config.Labels
	}
	if in.State != nil {
		c.State = string(in.State.Status)
	}
	if ns := in.NetworkSettings; ns != nil {
		for _, name := range slices.Sorted(maps.Keys(ns.Networks)) {
			if ip := ns.Networks[name].IPAddress; ip.IsValid() && c.IP == "" {
				c.IP = ip.String()
			}
		}
		c.HostPorts = published(ns.Ports)
	}
	return c, nil
}

// published returns the ports in a steady order.
func published(ports network.PortMap) []container.Port {
	var out []container.Port
	for port, bindings := range ports {
		for _, b := range bindings {
			hostPort, err := strconv.Atoi(b.HostPort)
			if err != nil {
				continue // exposed, not published
			}
			ip := "0.0.0.0" // how engines mean an address they leave out
			if b.HostIP.IsValid() {
				ip = b.HostIP.String()
			}
			out = append(out, container.Port{HostIP: ip, HostPort: hostPort, ContainerPort: int(port.Num())})
		}
	}
	slices.SortFunc(out, func(a, b container.Port) int {
		return cmp.Or(cmp.Compare(a.ContainerPort, b.ContainerPort), cmp.Compare(a.HostIP, b.HostIP), cmp.Compare(a.HostPort, b.HostPort))
	})
	return out
}

// List returns containers, running or not, that carry all the labels.
func (s containers) List(ctx context.Context, labels map[string]string) ([]container.Container, error) {
	filters := client.Filters{}
	for k, v := range labels {
		filters.Add("label", k+"="+v)
	}
	r, err := s.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		return nil, s.wrap(err, "list containers")
	}
	out := make([]container.Container, 0, len(r.Items))
	for _, item := range r.Items {
		if !carries(item.Labels, labels) {
			continue
		}
		c := container.Container{ID: item.ID, State: string(item.State), Labels: item.Labels}
		if len(item.Names) > 0 {
			c.Name = strings.TrimPrefix(item.Names[0], "/")
		}
		out = append(out, c)
	}
	return out, nil
}

// short is a container's id as people see it, or its name.
func short(id string) string {
	if len(id) == 64 {
		return id[:12]
	}
	return id
}
