package upgrade

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolhaven/toolhaven/internal/build"
	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Change is what an upgrade has done.
type Change struct {
	// From and To are versions of a package, or digests or ids of an image; equal when the
	// workload ran the newest already.
	From, To string
	// Status is the workload's after it; nil when nothing changed.
	Status *workload.Status
}

// errRemote: there is nothing to upgrade here.
var errRemote = errors.New("its server runs elsewhere, so there is nothing to upgrade here")

// Upgrade makes what the name of a workload means now present, while the workload runs as
// it is, and then exchanges the two. Name, port, URL and secrets stay. When the new one
// does not start, the old one runs again, and that is the error.
func (u *Upgrader) Upgrade(ctx context.Context, name string, progress func(manager.Event)) (*Change, error) {
	unlock, err := u.Store.LockUpgrade(name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	spec, err := u.Store.Get(name)
	if err != nil {
		return nil, err
	}
	if spec.Remote != nil {
		return nil, fmt.Errorf("upgrade %s: %w", name, errRemote)
	}
	ran := resolved(spec)
	next, image, err := u.next(ctx, spec, ran, progress)
	if err != nil {
		return nil, fmt.Errorf("upgrade %s: %w; it runs as before", name, err)
	}
	change := &Change{From: label(&ran), To: label(next.Resolved)}
	if image.ID == ran.ImageID || ran.ImageID == "" && change.From == change.To {
		if spec.Resolved == nil || spec.Source.Version != next.Source.Version {
			next.Previous = spec.Previous
			return change, u.Store.Put(next) // the record alone: it runs already
		}
		change.To = change.From
		return change, nil
	}
	if ran.ImageID != "" {
		next.Previous = &ran
	}
	if change.Status, err = u.Manager.Replace(ctx, next, progress); err != nil {
		return nil, fmt.Errorf("upgrade %s to %s: %w", name, change.To, err)
	}
	if spec.Previous != nil {
		u.drop(ctx, spec.Previous)
	}
	return change, nil
}

// next is the Spec of what the name means now, and its image, which the engine has.
func (u *Upgrader) next(ctx context.Context, spec *workload.Spec, ran workload.Resolved, progress func(manager.Event)) (*workload.Spec, container.Image, error) {
	var none container.Image
	t, err := u.target(ctx, spec, ran)
	if err != nil {
		return nil, none, err
	}
	engine, err := u.Engine(ctx)
	if err != nil {
		return nil, none, err
	}
	next := *spec
	next.Source.Version = t.entry
	if spec.Package != nil {
		pkg := *spec.Package
		pkg.Version = t.requested
		next.Package = &pkg
		err = u.Build(ctx, &next, true, progress)
	} else {
		next.Image = t.image
		err = pull(ctx, engine, t.image, progress)
	}
	if err != nil {
		return nil, none, err
	}
	verified, err := u.Verify(ctx, &next, progress)
	if err != nil {
		return nil, none, err
	}
	image, err := engine.Image(ctx, verified.Ref)
	if errors.Is(err, container.ErrNotFound) && spec.Package == nil { // of an index, the image for this platform was verified
		if err = engine.Pull(ctx, verified.Ref, nil); err == nil {
			image, err = engine.Image(ctx, verified.Ref)
		}
	}
	if err != nil {
		return nil, none, err
	}
	next.Resolve(t.requested, image.ID, image.Digests)
	if verified.Digest != "" {
		next.Verified(verified.Digest, verified.Signer)
	}
	return &next, image, nil
}

// pull fetches what a tag is at its registry now. One of an image that was made here stays.
func pull(ctx context.Context, engine container.Engine, ref string, progress func(manager.Event)) error {
	if local, err := madeHere(ctx, engine, ref); err != nil || local != "" {
		return err
	}
	progress(manager.Event{Stage: "image", Message: "pulling " + ref})
	return engine.Pull(ctx, ref, func(p container.Progress) {
		progress(manager.Event{Stage: "image", Message: p.Status + " " + p.ID, Current: p.Current, Total: p.Total})
	})
}

// RollBack goes back to what the workload ran before the last upgrade. Going back twice is
// the upgrade again.
func (u *Upgrader) RollBack(ctx context.Context, name string, progress func(manager.Event)) (*Change, error) {
	unlock, err := u.Store.LockUpgrade(name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	spec, err := u.Store.Get(name)
	if err != nil {
		return nil, err
	}
	change := &Change{From: label(spec.Resolved)}
	if !spec.RollBack() {
		return nil, fmt.Errorf("workload %q was not upgraded, so there is nothing to go back to", name)
	}
	change.To = label(spec.Resolved)
	if err := u.present(ctx, spec, progress); err != nil {
		return nil, fmt.Errorf("go back to %s: %w; the workload runs as before", change.To, err)
	}
	if change.Status, err = u.Manager.Replace(ctx, spec, progress); err != nil {
		return nil, fmt.Errorf("go back to %s: %w", change.To, err)
	}
	return change, nil
}

// present makes the image present that a Spec has resolved, while the workload still runs
// another one.
func (u *Upgrader) present(ctx context.Context, spec *workload.Spec, progress func(manager.Event)) error {
	engine, err := u.Engine(ctx)
	if err != nil {
		return err
	}
	r := spec.Resolved
	if _, err := engine.Image(ctx, r.ImageID); !errors.Is(err, container.ErrNotFound) {
		return err
	}
	ref := r.Pinned()
	switch {
	case spec.Package != nil:
		if err := u.Build(ctx, spec, false, progress); err != nil {
			return err
		}
		ref = spec.Image
	case ref == "":
		return fmt.Errorf("the image %s (%s) is no longer on this engine, and it was made here", r.Image, r.ImageID)
	default:
		progress(manager.Event{Stage: "image", Message: "pulling " + ref})
		if err := engine.Pull(ctx, ref, nil); err != nil {
			return err
		}
	}
	image, err := engine.Image(ctx, ref)
	if err != nil {
		return err
	}
	entry := r.Entry
	spec.Resolve(r.Requested, image.ID, image.Digests)
	if r.Digest != "" { // it was pulled by that
		spec.Verified(r.Digest, r.SignedBy)
	}
	spec.Resolved.Entry = entry
	return nil
}

// label is what a person knows an image by.
func label(r *workload.Resolved) string {
	switch {
	case r == nil:
		return ""
	case r.Version != "" && r.Version != build.LocalVersion:
		return r.Version
	case r.Digest != "":
		return r.Digest
	}
	return r.ImageID
}
