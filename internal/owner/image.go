package owner

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// imageSource provides the image that a workload's containers are made of. Only the
// watch, which starts containers one after another, uses it.
type imageSource struct {
	spec   *workload.Spec
	store  *manager.Store
	engine container.Engine
	build  func(ctx context.Context, spec *workload.Spec, progress func(manager.Event)) error // nil: packages are not built
	notify func(manager.Event)
	ref    string // the image's reference: the Spec's, unless the image was built again
}

// get returns the image: the one that the Spec has resolved, also when its tag means
// another one now. One that the engine has lost is built again, or pulled by its digest.
func (s *imageSource) get(ctx context.Context) (container.Image, error) {
	if s.spec.Unverified() {
		return container.Image{}, fmt.Errorf("the image %s was not verified, and --image-verification=enabled demands it; remove the workload with `thv rm %s` and run it again", s.spec.Image, s.spec.Name)
	}
	pinned := ""
	if r := s.spec.Resolved; r != nil && s.ref == r.Image {
		image, err := s.engine.Image(ctx, r.ImageID)
		if !errors.Is(err, container.ErrNotFound) {
			return image, err
		}
		pinned = r.Pinned()
	}
	if s.spec.Package == nil && pinned != "" {
		return s.pull(ctx, pinned)
	}
	image, err := s.engine.Image(ctx, s.ref)
	if !errors.Is(err, container.ErrNotFound) {
		return image, err
	}
	if s.spec.Package == nil {
		return s.pull(ctx, s.ref)
	}
	if err := s.rebuild(ctx); err != nil {
		return image, err
	}
	return s.engine.Image(ctx, s.ref)
}

// rebuild makes the image of a package again. It may get another name, if what it is
// made from has changed, and the stored Spec follows.
func (s *imageSource) rebuild(ctx context.Context) error {
	spec, pkg := *s.spec, *s.spec.Package
	spec.Package = &pkg
	if s.build == nil {
		return fmt.Errorf("the image built from %s://%s is no longer on this engine; remove the workload with `thv rm %s` and run it again", pkg.Scheme, pkg.Name, spec.Name)
	}
	s.notify(manager.Event{Stage: "image", Message: fmt.Sprintf("building %s://%s again, because the engine has lost its image", pkg.Scheme, pkg.Name)})
	if err := s.build(ctx, &spec, s.notify); err != nil {
		return fmt.Errorf("the image %s is no longer on this engine: %w", s.ref, err)
	}
	if spec.Image == s.ref && spec.Resolved == nil {
		return nil
	}
	s.ref = spec.Image
	if r := spec.Resolved; r != nil {
		image, err := s.engine.Image(ctx, s.ref)
		if err != nil {
			return err
		}
		spec.Resolve(r.Requested, image.ID, image.Digests)
	}
	return s.store.Put(&spec)
}

func (s *imageSource) pull(ctx context.Context, ref string) (container.Image, error) {
	s.notify(manager.Event{Stage: "image", Message: "pulling " + ref})
	err := s.engine.Pull(ctx, ref, func(p container.Progress) {
		s.notify(manager.Event{Stage: "image", Message: p.Status + " " + p.ID, Current: p.Current, Total: p.Total})
	})
	if err != nil {
		return container.Image{}, err
	}
	return s.engine.Image(ctx, ref)
}
