package docker

import (
	"context"
	"errors"
	"strconv"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/toolhaven/toolhaven/internal/container"
)

// DiskUsage returns the bytes in a container's own layer and in its volumes.
func (s containers) DiskUsage(ctx context.Context, id string) (int64, error) {
	r, err := s.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{Size: true})
	if err != nil {
		return 0, s.wrap(err, "measure the disk of container %s", short(id))
	}
	if r.Container.SizeRw == nil {
		return 0, s.wrap(errors.New("the engine returns no size"), "measure the disk of container %s", short(id))
	}
	used := *r.Container.SizeRw
	volumes := map[string]bool{}
	for _, m := range r.Container.Mounts {
		if m.Type == mount.TypeVolume {
			volumes[m.Name] = true
		}
	}
	if len(volumes) == 0 {
		return used, nil
	}
	// No call measures one volume.
	all, err := s.api.DiskUsage(ctx, client.DiskUsageOptions{Volumes: true, Verbose: true})
	if err != nil {
		return 0, s.wrap(err, "measure the volumes of container %s", short(id))
	}
	for _, v := range all.Volumes.Items {
		if volumes[v.Name] && v.UsageData != nil && v.UsageData.Size > 0 {
			used += v.UsageData.Size
		}
	}
	return used, nil
}

// diskQuota reports whether an engine's storage can bound a container's own layer. Overlay
// on XFS can where it is mounted with project quotas, which engines do not report.
func diskQuota(driver string, status [][2]string) bool {
	switch driver {
	case "btrfs", "zfs":
		return true
	case "overlay", "overlay2":
		for _, s := range status {
			if s[0] == "Backing Filesystem" {
				return s[1] == "xfs"
			}
		}
	}
	return false
}

// storageOptions makes the engine bound the container's own layer, where its storage can.
func storageOptions(c container.Config, info container.Info) map[string]string {
	if c.Disk == 0 || !info.DiskQuota {
		return nil
	}
	return map[string]string{"size": strconv.FormatInt(c.Disk, 10)}
}
