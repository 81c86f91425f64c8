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

// get returns the image. One that the engine has lost is built again, or pulled.
func (s *imageSource) get(ctx context.Context) (container.Image, error) {
	image, err := s.engine.Image(ctx, s.ref)
	if !errors.Is(err, container.ErrNotFound) {
		return image, err
	}
	if s.spec.Package != nil {
		err = s.rebuild(ctx)
	} else {
		err = s.pull(ctx)
	}
	if err != nil {
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
	if spec.Image != s.ref {
		s.ref = spec.Image
		return s.store.Put(&spec)
	}
	return nil
}

func (s *imageSource) pull(ctx context.Context) error {
	s.notify(manager.Event{Stage: "image", Message: "pulling " + s.ref})
	return s.engine.Pull(ctx, s.ref, func(p container.Progress) {
		s.notify(manager.Event{Stage: "image", Message: p.Status + " " + p.ID, Current: p.Current, Total: p.Total})
	})
}
