package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/toolhaven/toolhaven/internal/container"
)

// common is what the builds of all schemes share: the images of the engine, and the
// progress that is reported.
type common struct{ cfg *Config }

func (c common) report(format string, args ...any) {
	c.cfg.Log(Event{Message: fmt.Sprintf(format, args...)})
}

func (c common) env() environment { return c.cfg.Env }

// base makes sure that the engine has the base image.
func (c common) base(ctx context.Context, r Request) (container.Image, error) {
	ref := baseImage(r)
	img, err := c.cfg.Engine.Image(ctx, ref)
	if err == nil {
		return img, nil
	}
	if !errors.Is(err, container.ErrNotFound) {
		return container.Image{}, fmt.Errorf("find the base image: %w", err)
	}
	c.report("pulling the base image %s", ref)
	if err := c.cfg.Engine.Pull(ctx, ref, nil); err != nil {
		if ctxErr := context.Cause(ctx); ctxErr != nil {
			return container.Image{}, fmt.Errorf("pull the base image %s: %w", ref, ctxErr)
		}
		// %v: a base image that is missing is not a package that is missing.
		return container.Image{}, fmt.Errorf("the base image %s is not here and cannot be pulled; name one that the engine has with --runtime-image: %v", ref, err)
	}
	img, err = c.cfg.Engine.Image(ctx, ref)
	if err != nil {
		return container.Image{}, fmt.Errorf("inspect the base image: %w", err)
	}
	return img, nil
}

// once makes an image unless the engine has it. Of several processes that need the same
// image one makes it and the others wait: without the lock, a process that is stopped
// would remove the image that another one has just made.
func (c common) once(ctx context.Context, image string, build func() error) (built bool, err error) {
	dir := filepath.Join(c.cfg.StateDir, "locks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, fmt.Errorf("lock the build of %s: %w", image, err)
	}
	lock := flock.New(filepath.Join(dir, hash([]byte(image))[:32]), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		return false, fmt.Errorf("lock the build of %s: %w", image, err)
	}
	defer func() { _ = lock.Unlock() }() // closing the file is what unlocks it
	if there, err := c.exists(ctx, image); err != nil || there {
		return false, err
	}
	if err := build(); err != nil {
		c.undo(ctx, image)
		return false, err
	}
	return true, nil
}

// exists reports whether the engine has the image already.
func (c common) exists(ctx context.Context, image string) (bool, error) {
	_, err := c.cfg.Engine.Image(ctx, image)
	if errors.Is(err, container.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find image %s: %w", image, err)
	}
	return true, nil
}

// undo removes an image that a failed build may have left: an engine may finish a build
// after its client has disconnected.
func (c common) undo(ctx context.Context, image string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	_ = c.cfg.Engine.RemoveImage(ctx, image) // the build's own error is the one that matters
}

// addTag adds a tag to an image. The Engine interface has no call for that, but an image
// built from another one without a change is that other image.
func (c common) addTag(ctx context.Context, image, tag string) error {
	if tag == "" {
		return nil
	}
	tree, err := packTree([]file{{name: "Dockerfile", content: []byte("FROM " + image + "\n")}})
	if err != nil {
		return fmt.Errorf("tag %s as %s: %w", image, tag, err)
	}
	err = c.cfg.Engine.Build(ctx, container.Build{Context: tree, Tags: []string{tag}, NetworkOff: true})
	if err != nil {
		return fmt.Errorf("tag %s as %s: %w", image, tag, err)
	}
	return nil
}

// load loads an image into the engine under a tag.
func (c common) load(ctx context.Context, img v1.Image, tag string) error {
	ref, err := name.NewTag(tag)
	if err != nil {
		return fmt.Errorf("name the image: %w", err)
	}
	r, w := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		w.CloseWithError(tarball.Write(ref, img, w))
	}()
	err = c.cfg.Engine.Load(ctx, r)
	r.CloseWithError(io.ErrClosedPipe)
	<-written
	return err
}
