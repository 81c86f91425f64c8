// Package hidden mounts something empty over the paths that ignore files hide from a server
// (package overlay).
package hidden

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/overlay"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Paths is how paths in mounts are hidden.
type Paths struct {
	// Global is the file with the user's own ignore patterns; "" is none.
	Global string
	// Empty is a directory for the empty file and the empty directory that are mounted over
	// hidden paths. It is created when first needed.
	Empty string
}

// Mounts returns what is mounted over the paths that the server must not see: an empty file
// or directory, read-only. The ignore files are read at each start.
func (o Paths) Mounts(ctx context.Context, c *workload.Container) ([]container.Mount, error) {
	found, err := o.Resolve(ctx, c)
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

// Resolve finds the hidden paths in the mounts of a container. The error is of an ignore file,
// or that there are too many paths.
func (o Paths) Resolve(ctx context.Context, c *workload.Container) (*overlay.Result, error) {
	var mounts []overlay.Mount
	for _, m := range c.Mounts {
		mounts = append(mounts, overlay.Mount{Host: m.Host, Container: m.Container})
	}
	global := o.Global
	if c.SkipGlobalIgnore {
		global = ""
	}
	return overlay.Resolve(ctx, mounts, global)
}

// empty returns an empty file and an empty directory, which only their owner can write.
func (o Paths) empty() (file, dir string, err error) {
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
