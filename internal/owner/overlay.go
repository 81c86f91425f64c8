package owner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/overlay"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Overlays is how paths in mounts are hidden.
type Overlays struct {
	// Global is the file with the user's own ignore patterns; "" is none.
	Global string
	// Empty is a directory for the empty file and the empty directory that are mounted over
	// hidden paths. It is created when first needed.
	Empty string
}

// mounts returns what is mounted over the paths that the server must not see: an empty file
// or directory, read-only. The ignore files are read at each start.
func (o Overlays) mounts(ctx context.Context, c *workload.Container) ([]container.Mount, error) {
	found, err := overlay.Resolve(ctx, OverlayMounts(c), o.GlobalFor(c))
	if err != nil || len(found.Hidden) == 0 {
		return nil, err
	}
	file, dir, err := o.empty()
	if err != nil {
		return nil, fmt.Errorf("hide files of the mounts: %w", err)
	}
	var mounts []container.Mount
	for _, h := range found.Hidden {
		m := container.Mount{Source: file, Target: h.Path, ReadOnly: true}
		if h.Dir {
			m.Source = dir
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// GlobalFor returns the global ignore file for a container; "" for none.
func (o Overlays) GlobalFor(c *workload.Container) string {
	if c.SkipGlobalIgnore {
		return ""
	}
	return o.Global
}

// OverlayMounts are the mounts of a container, for [overlay.Resolve].
func OverlayMounts(c *workload.Container) []overlay.Mount {
	var mounts []overlay.Mount
	for _, m := range c.Mounts {
		mounts = append(mounts, overlay.Mount{Host: m.Host, Container: m.Container})
	}
	return mounts
}

// empty returns an empty file and an empty directory, which only their owner can write.
func (o Overlays) empty() (file, dir string, err error) {
	file, dir = filepath.Join(o.Empty, "file"), filepath.Join(o.Empty, "dir")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", err
	}
	f, err := os.OpenFile(file, os.O_RDONLY|os.O_CREATE, 0o444)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", "", err
	}
	if info.Size() > 0 || !info.Mode().IsRegular() || len(entries) > 0 {
		return "", "", fmt.Errorf("%s and %s must be empty; delete %s", file, dir, o.Empty)
	}
	return file, dir, nil
}
