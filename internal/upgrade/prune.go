package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/toolhaven/toolhaven/internal/build"
	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Unused lists the images built here that no workload runs, or goes back to. A workload
// whose description cannot be read is an error: its image is not known.
func Unused(ctx context.Context, store *manager.Store, b *build.Builder) ([]build.Built, error) {
	used, err := inUse(store)
	if err != nil {
		return nil, err
	}
	images, err := b.Images(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(images, func(i build.Built) bool {
		return used[i.ID] || slices.ContainsFunc(i.Tags, func(tag string) bool { return used[tag] })
	}), nil
}

// inUse has the references and ids of the images that workloads need.
func inUse(store *manager.Store) (map[string]bool, error) {
	names, err := store.Names()
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, name := range names {
		spec, err := store.Get(name)
		if errors.Is(err, manager.ErrNotFound) {
			continue // removed, or its description is lost
		}
		if err != nil {
			return nil, fmt.Errorf("which images are needed is not known: %w", err)
		}
		for _, image := range spec.Images() {
			used[image] = true
		}
	}
	return used, nil
}

// Remove removes images. It returns those that were removed; the error is of those that
// were not. One that a container is made of stays without an error.
func Remove(ctx context.Context, b *build.Builder, images []build.Built) (removed []build.Built, err error) {
	for _, i := range images {
		switch gone := b.Remove(ctx, i); {
		case gone == nil:
			removed = append(removed, i)
		case !errors.Is(gone, container.ErrInUse):
			err = errors.Join(err, gone)
		}
	}
	return removed, err
}

// Drop removes an image that was built here, by its reference, unless a workload needs it.
// A build or an upgrade has replaced it. The image only takes room, so no error is
// reported; thv prune shows what stays.
func Drop(ctx context.Context, store *manager.Store, b *build.Builder, ref string) {
	unused, err := Unused(ctx, store, b)
	if err != nil {
		return
	}
	_, _ = Remove(ctx, b, slices.DeleteFunc(unused, func(i build.Built) bool { return !slices.Contains(i.Tags, ref) }))
}

// drop removes the image of a package that an upgrade no longer goes back to.
func (u *Upgrader) drop(ctx context.Context, old *workload.Resolved) {
	b, err := u.Builder(ctx)
	if err == nil {
		Drop(ctx, u.Store, b, old.Image)
	}
}
