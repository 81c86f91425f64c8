package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	ctr "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/toolhaven/toolhaven/internal/container"
)

// Create makes a container, not started. This is the one place where containers
// are hardened.
func (s containers) Create(ctx context.Context, c container.Config) (string, error) {
	host, err := hostConfig(c)
	if err != nil {
		return "", fmt.Errorf("create container %s: %w", c.Name, err)
	}
	if c.Memory != 0 || c.Pids != 0 || c.NanoCPUs != 0 || c.Disk != 0 {
		info, err := s.Info(ctx)
		if err == nil {
			err = checkLimits(c, info)
		}
		if err != nil {
			return "", fmt.Errorf("create container %s: %w", c.Name, err)
		}
		host.StorageOpt = storageOptions(c, info)
	}
	own, err := s.networks.own(ctx, c.Network, c.Name)
	if err != nil {
		return "", err
	}
	labels := maps.Clone(c.Labels)
	if own != "" {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[labelOwnNetwork] = own
		host.NetworkMode = ctr.NetworkMode(own)
	}
	id, err := s.create(ctx, c, labels, host)
	if err != nil && limitsRefused(err) && c.Memory == 0 && c.Pids == 0 && c.NanoCPUs == 0 {
		// An engine without cgroup delegation (rootless on cgroup v1) cannot
		// limit. These limits are defaults, so it runs without.
		host.Memory, host.PidsLimit = 0, nil
		id, err = s.create(ctx, c, labels, host)
	}
	if err != nil && host.StorageOpt != nil && !nameTaken(err) {
		// XFS without project quotas. The container's owner measures.
		host.StorageOpt = nil
		id, err = s.create(ctx, c, labels, host)
	}
	if err != nil && own != "" {
		// One in use is another container's of this name, and stays.
		_ = s.networks.remove(context.WithoutCancel(ctx), own)
	}
	switch {
	case err == nil:
		return id, nil
	case nameTaken(err):
		return "", fmt.Errorf("create container %s: %w", c.Name, container.ErrNameTaken)
	default:
		return "", s.wrap(err, "create container %s", c.Name)
	}
}

func (s containers) create(ctx context.Context, c container.Config, labels map[string]string, host *ctr.HostConfig) (string, error) {
	exposed := network.PortSet{}
	for port := range host.PortBindings {
		exposed[port] = struct{}{}
	}
	r, err := s.api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: c.Name,
		Config: &ctr.Config{
			Image: c.Image, Entrypoint: c.Entrypoint, Cmd: c.Args, Env: c.Env, Labels: labels, User: user(c),
			ExposedPorts: exposed,
			// Our guest's line. When the attached client goes, its input ends.
			OpenStdin: true, StdinOnce: true, AttachStdin: true, AttachStdout: true, AttachStderr: true,
			// An image's health check would run beside us and prove nothing.
			Healthcheck: &ctr.HealthConfig{Test: []string{"NONE"}},
		},
		HostConfig: host,
	})
	return r.ID, err
}

// user is the user that the entry point starts as, "" for the image's own.
func user(c container.Config) string {
	if c.SetUp {
		return "0:0"
	}
	return c.User
}

// setUpCapabilities are those of an entry point that sets up: see
// [container.Config]. All but the first are among an engine's default ones.
var setUpCapabilities = []string{"NET_ADMIN", "SETPCAP", "SETUID", "SETGID", "CHOWN"}

// nameTaken: Docker answers 409, Podman 4 a plain 500, recognized by its text.
func nameTaken(err error) bool {
	return errdefs.IsConflict(err) || errdefs.IsInternal(err) && strings.Contains(err.Error(), "name is already in use")
}

// limitsRefused reports whether the error is that the engine cannot limit resources.
func limitsRefused(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "cgroup") && (strings.Contains(text, "not supported") || strings.Contains(text, "limit"))
}

func hostConfig(c container.Config) (*ctr.HostConfig, error) {
	switch {
	case c.Network != "" && !networkMode.MatchString(c.Network):
		return nil, fmt.Errorf("network %q is neither a network's name nor a mode of the engine", c.Network)
	case c.SetUp && (c.Privileged || !container.OwnNetwork(c.Network)):
		return nil, fmt.Errorf("a network to be set up must be the container's own, and the container not privileged (network %q)", c.Network)
	case c.Memory < 0 || c.Pids < 0 || c.NanoCPUs < 0 || c.Disk < 0:
		return nil, fmt.Errorf("a limit below zero (memory %d, processes %d, processors %d, disk %d)", c.Memory, c.Pids, c.NanoCPUs, c.Disk)
	}
	pids := c.Pids
	if pids == 0 {
		pids = container.DefaultPids
	}
	memory := c.Memory
	if memory == 0 {
		memory = container.DefaultMemory
	}
	noInit := false
	host := &ctr.HostConfig{
		NetworkMode: ctr.NetworkMode(c.Network),
		// The standard output is our protocol, not a log.
		LogConfig:     ctr.LogConfig{Type: "none"},
		RestartPolicy: ctr.RestartPolicy{Name: ctr.RestartPolicyDisabled},
		Init:          &noInit, // our guest is PID 1
		Privileged:    c.Privileged,
		Resources:     ctr.Resources{Memory: memory, PidsLimit: &pids, NanoCPUs: c.NanoCPUs},
	}
	if !c.Privileged {
		host.CapDrop = []string{"ALL"}
		if c.SetUp {
			host.CapAdd = slices.Clone(setUpCapabilities)
		}
		host.SecurityOpt = []string{"no-new-privileges"}
	}
	if c.IPv6 {
		host.Sysctls = map[string]string{"net.ipv6.conf.all.disable_ipv6": "0"}
	}
	for _, m := range c.Mounts {
		if err := addMount(host, m); err != nil {
			return nil, err
		}
	}
	var err error
	host.PortBindings, err = portBindings(c.Publish)
	return host, err
}

func addMount(host *ctr.HostConfig, m container.Mount) error {
	if !filepath.IsAbs(m.Source) || !path.IsAbs(m.Target) {
		return fmt.Errorf("mount %s at %s: both paths must be absolute", m.Source, m.Target)
	}
	// The engine would create what is missing, as root.
	if _, err := os.Stat(m.Source); err != nil {
		var reason *os.PathError
		if errors.As(err, &reason) {
			err = reason.Err
		}
		return fmt.Errorf("mount %s: %w", m.Source, err)
	}
	switch m.Relabel {
	case "":
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
		return nil
	case "z", "Z":
		// Only the short form can request an SELinux label, and it has no way
		// to write a colon.
		if strings.Contains(m.Source, ":") || strings.Contains(m.Target, ":") {
			return fmt.Errorf("mount %s at %s: a path with a colon cannot be relabelled (:%s)", m.Source, m.Target, m.Relabel)
		}
		mode := m.Relabel
		if m.ReadOnly {
			mode = "ro," + mode
		}
		host.Binds = append(host.Binds, m.Source+":"+m.Target+":"+mode)
		return nil
	default:
		return fmt.Errorf("mount %s: the SELinux label %q is neither z nor Z", m.Source, m.Relabel)
	}
}

func portBindings(publish []container.Port) (network.PortMap, error) {
	bindings := network.PortMap{}
	for _, p := range publish {
		if p.ContainerPort < 1 || p.ContainerPort > 65535 || p.HostPort < 0 || p.HostPort > 65535 {
			return nil, fmt.Errorf("publish port %d on %d: ports are 1 to 65535", p.ContainerPort, p.HostPort)
		}
		ip := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if p.HostIP != "" {
			var err error
			if ip, err = netip.ParseAddr(p.HostIP); err != nil {
				return nil, fmt.Errorf("publish on %q: not an IP address", p.HostIP)
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
		bindings[port] = append(bindings[port], binding)
	}
	return bindings, nil
}
