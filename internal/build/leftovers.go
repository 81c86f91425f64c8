package build

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolhaven/toolhaven/internal/container"
)

// Labels of images.
const (
	labelPackage = "dev.toolhaven.package"
	labelVersion = "dev.toolhaven.version"
	// labelMaker holds Config.Store, on every image and every step of one. Containers
	// inherit it, so it is not the label by which a store knows its containers.
	labelMaker = "dev.toolhaven.built-by"
	// labelStep is "yes" on the steps of an image, and empty on the image.
	labelStep = "dev.toolhaven.build-step"
)

// localPrefix begins the tags of images that are built here.
const localPrefix = "thv.local/"

// Built is an image that this Builder's store has built.
type Built struct {
	ID      string
	Tags    []string
	Package string // as a reference: npx://NAME
	Version string
	// Size is what its removal frees, in bytes: without the base image, if that is there.
	// Layers that other images share count too.
	Size int64
}

// Images lists the images that were built here. One with a tag of the user's is left out:
// it is the user's.
func (b *Builder) Images(ctx context.Context) ([]Built, error) {
	all, err := b.cfg.Engine.Images(ctx, map[string]string{labelPackage: ""})
	if err != nil {
		return nil, err
	}
	recorded := map[string]record{} // by image
	for _, rec := range b.records().all() {
		recorded[rec.Image] = rec
	}
	var found []Built
	for _, i := range all {
		ours := i.Labels[labelMaker] == b.cfg.Store && b.cfg.Store != ""
		size := i.Size
		for _, tag := range i.Tags {
			rec, ok := recorded[tag]
			ours = ours || ok
			if ok && rec.BaseID != "" {
				if base, err := b.cfg.Engine.Image(ctx, rec.BaseID); err == nil && base.Size < i.Size {
					size = i.Size - base.Size
				}
			}
		}
		if ours && allLocal(i.Tags) {
			found = append(found, Built{ID: i.ID, Tags: i.Tags, Package: i.Labels[labelPackage], Version: i.Labels[labelVersion], Size: size})
		}
	}
	return found, nil
}

func allLocal(tags []string) bool {
	for _, tag := range tags {
		if !strings.HasPrefix(tag, localPrefix) {
			return false
		}
	}
	return true
}

// Remove removes an image and the records of it. The error wraps container.ErrInUse when a
// container is made of it.
func (b *Builder) Remove(ctx context.Context, i Built) error {
	names := i.Tags
	if len(names) == 0 {
		names = []string{i.ID}
	}
	for _, name := range names {
		if err := b.cfg.Engine.RemoveImage(ctx, name); err != nil {
			return err
		}
	}
	for _, rec := range b.records().all() {
		if rec.ImageID == i.ID {
			b.records().remove(rec)
		}
	}
	return nil
}

func (b *Builder) records() records {
	return records{dir: filepath.Join(b.cfg.StateDir, "builds")}
}

// workDir is where builds have their directories.
func (c common) workDir() string { return filepath.Join(c.cfg.StateDir, "work") }

// building marks that a build is under way, until the returned function is called. Before
// that, what builds left that were killed is removed, if no other is under way.
func (c common) building(ctx context.Context) (done func(), err error) {
	c.sweep(ctx)
	lock, err := c.buildLock()
	if err != nil {
		return nil, err
	}
	if _, err := lock.TryRLockContext(ctx, 100*time.Millisecond); err != nil {
		return nil, fmt.Errorf("lock the builds: %w", err)
	}
	return func() { _ = lock.Unlock() }, nil // closing the file is what unlocks it
}

// buildLock is shared by builds, and exclusive of a sweep.
func (c common) buildLock() (*flock.Flock, error) {
	dir := filepath.Join(c.cfg.StateDir, "locks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock the builds: %w", err)
	}
	return flock.New(filepath.Join(dir, "builds"), flock.SetPermissions(0o600)), nil
}

// Sweep removes what builds left that were killed, unless a build is under way: steps of
// images, and directories. It returns how many there were.
func (b *Builder) Sweep(ctx context.Context) int { return b.sweep(ctx) }

func (c common) sweep(ctx context.Context) (removed int) {
	lock, err := c.buildLock()
	if err != nil {
		return 0
	}
	if locked, err := lock.TryLock(); err != nil || !locked {
		return 0
	}
	defer func() { _ = lock.Unlock() }()
	if dirs, err := os.ReadDir(c.workDir()); err == nil {
		for _, d := range dirs {
			if os.RemoveAll(filepath.Join(c.workDir(), d.Name())) == nil {
				removed++
			}
		}
	}
	if c.cfg.Store == "" {
		return removed
	}
	steps, err := c.cfg.Engine.Images(ctx, map[string]string{labelStep: stepYes, labelMaker: c.cfg.Store})
	if err != nil {
		return removed // the build itself fails for the same reason
	}
	for _, i := range steps {
		if c.removeStep(ctx, i) {
			removed++
		}
	}
	return removed
}

const stepYes = "yes"

func (c common) removeStep(ctx context.Context, i container.Image) bool {
	names := i.Tags
	if len(names) == 0 {
		names = []string{i.ID}
	}
	for _, name := range names {
		if c.cfg.Engine.RemoveImage(ctx, name) != nil {
			return false // perhaps a container of a step is still running; the next sweep tries again
		}
	}
	return true
}
