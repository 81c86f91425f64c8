package docker

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	ctr "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/toolhaven/toolhaven/internal/container"
)

// Limits of a container that names none.
const (
	defaultMemory = 2 << 30 // bytes
	defaultPids   = 1024
)

// Create makes a container, not started. This is the one place where containers
// are hardened.
func (e *Engine) Create(ctx context.Context, c container.Config) (string, error) {
	host, err := hostConfig(c)
	if err != nil {
		return "", fmt.Errorf("create container %s: %w", c.Name, err)
	}
	exposed := network.PortSet{}
	for port := range host.PortBindings {
		exposed[port] = struct{}{}
	}
	r, err := e.api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: c.Name,
		Config: &ctr.Config{
			Image: c.Image, Entrypoint: c.Entrypoint, Cmd: c.Args, Env: c.Env, Labels: c.Labels,
			ExposedPorts: exposed,
			// Our guest's line. When the attached client goes, its input ends.
			OpenStdin: true, StdinOnce: true, AttachStdin: true, AttachStdout: true, AttachStderr: true,
			// An image's health check would run beside us and prove nothing.
			Healthcheck: &ctr.HealthConfig{Test: []string{"NONE"}},
		},
		HostConfig: host,
	})
	// Podman reports a taken name as a fault of its own.
	if errdefs.IsConflict(err) || err != nil && strings.Contains(err.Error(), "name is already in use") {
		return "", fmt.Errorf("create container %s: %w", c.Name, container.ErrNameTaken)
	}
	if err != nil {
		return "", e.wrap(err, "create container %s", c.Name)
	}
	return r.ID, nil
}

func hostConfig(c container.Config) (*ctr.HostConfig, error) {
	pids := c.Pids
	if pids == 0 {
		pids = defaultPids
	}
	memory := c.Memory
	if memory == 0 {
		memory = defaultMemory
	}
	noInit := false
	host := &ctr.HostConfig{
		NetworkMode: ctr.NetworkMode(c.Network),
		// The standard output is our protocol, not a log.
		LogConfig:     ctr.LogConfig{Type: "none"},
		RestartPolicy: ctr.RestartPolicy{Name: ctr.RestartPolicyDisabled},
		Init:          &noInit, // our guest is PID 1
		Privileged:    c.Privileged,
		PortBindings:  network.PortMap{},
		Resources:     ctr.Resources{Memory: memory, PidsLimit: &pids},
	}
	if !c.Privileged {
		host.CapDrop = []string{"ALL"}
		host.SecurityOpt = []string{"no-new-privileges"}
	}
	for _, m := range c.Mounts {
		// The engine would create what is missing, as root.
		if _, err := os.Stat(m.Source); err != nil {
			return nil, fmt.Errorf("mount %s: %w", m.Source, err)
		}
		if m.Relabel != "" {
			// Only the short form can ask for an SELinux label.
			mode := m.Relabel
			if m.ReadOnly {
				mode = "ro," + mode
			}
			host.Binds = append(host.Binds, m.Source+":"+m.Target+":"+mode)
			continue
		}
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	for _, p := range c.Publish {
		ip := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if p.HostIP != "" {
			var err error
			if ip, err = netip.ParseAddr(p.HostIP); err != nil {
				return nil, fmt.Errorf("publish on %q: %w", p.HostIP, err)
			}
		}
		port, err := network.ParsePort(strconv.Itoa(p.ContainerPort) + "/tcp")
		if err != nil {
			return nil, fmt.Errorf("publish port %d: %w", p.ContainerPort, err)
		}
		binding := network.PortBinding{HostIP: ip}
		if p.HostPort != 0 {
			binding.HostPort = strconv.Itoa(p.HostPort)
		}
		host.PortBindings[port] = append(host.PortBindings[port], binding)
	}
	return host, nil
}

// CopyTo unpacks a tar stream at path in a container that is not running.
func (e *Engine) CopyTo(ctx context.Context, id, path string, tar io.Reader) error {
	_, err := e.api.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: path, Content: tar})
	return e.wrap(err, "copy into container %s", short(id))
}

// Start starts a container.
func (e *Engine) Start(ctx context.Context, id string) error {
	_, err := e.api.ContainerStart(ctx, id, client.ContainerStartOptions{})
	return e.wrap(err, "start container %s", short(id))
}

// Wait returns the exit status when the container is no longer running.
func (e *Engine) Wait(ctx context.Context, id string) (container.ExitStatus, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := e.api.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: ctr.WaitConditionNotRunning})
	select {
	case r := <-w.Result:
		status := container.ExitStatus{Code: int(r.StatusCode)}
		if c, err := e.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{}); err == nil && c.Container.State != nil {
			status.OOMKilled = c.Container.State.OOMKilled
		}
		return status, nil
	case err := <-w.Error:
		return container.ExitStatus{}, e.wrap(err, "wait for container %s", short(id))
	}
}

// Stop asks the container to end and kills it after grace.
func (e *Engine) Stop(ctx context.Context, id string, grace time.Duration) error {
	seconds := int((grace + time.Second - 1) / time.Second)
	_, err := e.api.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &seconds})
	return e.wrap(err, "stop container %s", short(id))
}

// Remove deletes a container, killing it if it runs, with its anonymous volumes.
func (e *Engine) Remove(ctx context.Context, id string) error {
	_, err := e.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err == nil || errdefs.IsNotFound(err) {
		return nil
	}
	if !errdefs.IsConflict(err) {
		return e.wrap(err, "remove container %s", short(id))
	}
	// Somebody else is removing it; wait until it is gone.
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := e.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{}); errdefs.IsNotFound(err) {
			return nil
		} else if err != nil {
			return e.wrap(err, "remove container %s", short(id))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("remove container %s: %w", short(id), ctx.Err())
		}
	}
}

// Inspect describes a container by name or id.
func (e *Engine) Inspect(ctx context.Context, id string) (container.Container, error) {
	r, err := e.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return container.Container{}, e.wrap(err, "inspect container %s", short(id))
	}
	in := r.Container
	c := container.Container{ID: in.ID, Name: strings.TrimPrefix(in.Name, "/"), ImageID: in.Image}
	c.Created, _ = time.Parse(time.RFC3339Nano, in.Created) // zero when the engine writes another form
	if in.Config != nil {
		c.Image, c.Labels = in.Config.Image, in.Config.Labels
	}
	if in.State != nil {
		c.State = string(in.State.Status)
		c.Exit = container.ExitStatus{Code: in.State.ExitCode, OOMKilled: in.State.OOMKilled}
	}
	if ns := in.NetworkSettings; ns != nil {
		for _, name := range slices.Sorted(maps.Keys(ns.Networks)) {
			if ip := ns.Networks[name].IPAddress; ip.IsValid() && c.IP == "" {
				c.IP = ip.String()
			}
		}
		for port, bindings := range ns.Ports {
			for _, b := range bindings {
				hostPort, err := strconv.Atoi(b.HostPort)
				if err != nil {
					continue
				}
				c.HostPorts = append(c.HostPorts, container.Port{HostIP: b.HostIP.String(), HostPort: hostPort, ContainerPort: int(port.Num())})
			}
		}
	}
	return c, nil
}

// List returns containers, running or not, that carry all the labels.
func (e *Engine) List(ctx context.Context, labels map[string]string) ([]container.Container, error) {
	filters := client.Filters{}
	for k, v := range labels {
		filters.Add("label", k+"="+v)
	}
	r, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		return nil, e.wrap(err, "list containers")
	}
	out := make([]container.Container, 0, len(r.Items))
	for _, s := range r.Items {
		c := container.Container{ID: s.ID, Image: s.Image, ImageID: s.ImageID, State: string(s.State), Labels: s.Labels, Created: time.Unix(s.Created, 0)}
		if len(s.Names) > 0 {
			c.Name = strings.TrimPrefix(s.Names[0], "/")
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
