package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/moby/moby/client"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// Info describes the engine.
func (c *connection) Info(ctx context.Context) (container.Info, error) {
	v, err := c.api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return container.Info{}, c.wrap(err, "get the container engine's version")
	}
	info := container.Info{
		Name: "Docker", Version: v.Version, APIVersion: c.api.ClientVersion(),
		OS: v.Os, Arch: v.Arch, Socket: c.address,
	}
	for _, component := range v.Components {
		if strings.HasPrefix(component.Name, "Podman") {
			info.Name, info.Version = "Podman", component.Version
		}
	}
	sys, err := c.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return container.Info{}, c.wrap(err, "get the container engine's properties")
	}
	for _, opt := range sys.Info.SecurityOptions {
		info.Rootless = info.Rootless || strings.Contains(opt, "rootless")
		info.Security = append(info.Security, plaintext.Line(strings.TrimPrefix(opt, "name=")))
	}
	info.Kernel, info.Cgroup = plaintext.Line(sys.Info.KernelVersion), plaintext.Line(sys.Info.CgroupVersion)
	info.LimitsMemory, info.LimitsProcesses, info.LimitsCPUs = sys.Info.MemoryLimit, sys.Info.PidsLimit, sys.Info.CPUCfsQuota
	info.Storage, info.Root = plaintext.Line(sys.Info.Driver), sys.Info.DockerRootDir
	info.DiskQuota = diskQuota(sys.Info.Driver, sys.Info.DriverStatus)
	if info.Name == "Podman" {
		err = c.podmanInfo(ctx, &info)
	}
	return info, err
}

// maxInfo bounds Podman's description of itself, in bytes.
const maxInfo = 1 << 20

// podmanInfo corrects what Podman's Docker API reports: whether it is rootless, and which
// limits it can set, are in its own API only (libpod/info).
func (c *connection) podmanInfo(ctx context.Context, info *container.Info) error {
	wrong := func(err error) error { return fmt.Errorf("get the container engine's properties: %w", err) }
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.api.Dialer()(ctx) }}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://podman/v4.0.0/libpod/info", nil)
	if err != nil {
		return wrong(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return wrong(err)
	}
	defer resp.Body.Close()
	var found struct {
		Host struct {
			Security          struct{ Rootless bool }
			CgroupControllers []string
		}
	}
	if resp.StatusCode != http.StatusOK {
		return wrong(fmt.Errorf("libpod/info returns %s", resp.Status))
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxInfo)).Decode(&found); err != nil {
		return wrong(err)
	}
	can := func(controller string) bool { return slices.Contains(found.Host.CgroupControllers, controller) }
	info.Rootless = found.Host.Security.Rootless
	info.LimitsMemory, info.LimitsProcesses, info.LimitsCPUs = can("memory"), can("pids"), can("cpu")
	return nil
}

// checkLimits refuses limits that the engine would silently leave out. Those that are not
// given are the defaults, without which a container runs too.
func checkLimits(cfg container.Config, info container.Info) error {
	var missing []string
	for _, limit := range []struct {
		name  string
		given bool
		can   bool
	}{{"memory", cfg.Memory != 0, info.LimitsMemory}, {"processes", cfg.Pids != 0, info.LimitsProcesses}, {"processors", cfg.NanoCPUs != 0, info.LimitsCPUs}} {
		if limit.given && !limit.can {
			missing = append(missing, limit.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("the engine cannot limit %s (cgroup %s, rootless: %t); leave the limit out", strings.Join(missing, ", "), info.Cgroup, info.Rootless)
}
