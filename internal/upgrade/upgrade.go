// Package upgrade resolves the names of workloads again.
//
// When a workload is run, its Spec records what its name meant (workload.Resolved): the
// version of a package, the digest of an image. Later the name may mean something else.
// [Upgrader.Check] finds that out and changes nothing. [Upgrader.Upgrade] makes the new
// image present while the old one runs, and then exchanges them; [Upgrader.RollBack] goes
// back to what ran before. [Upgrader.Prune] removes images built here that no workload
// needs.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"

	"github.com/toolhaven/toolhaven/internal/build"
	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/source"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// State is how the name of a workload relates to what runs.
type State string

// The states of a name.
const (
	Current  State = "current"  // it means what runs
	Outdated State = "outdated" // it means something else now
	Pinned   State = "pinned"   // it has an exact version or digest
	Local    State = "local"    // a directory, or an image that was made on this machine
	Remote   State = "remote"   // the server runs elsewhere
	Changed  State = "changed"  // the registry's entry names another program
	Unknown  State = "unknown"  // it could not be looked up
)

// Finding is the result of looking up the name of one workload.
type Finding struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	State  State  `json:"state"`
	// Running and Available are versions of a package, or digests of an image. Available is
	// set when it is not what runs.
	Running   string `json:"running,omitempty"`
	Available string `json:"available,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// Upgrader looks names up and upgrades workloads. All fields are required.
type Upgrader struct {
	Store   *manager.Store
	Manager *manager.Manager
	Engine  func(ctx context.Context) (container.Engine, error)
	Catalog func() (registry.Catalog, error)
	// Build makes the image of the Spec's package and notes it in the Spec. With refresh, a
	// version that is not exact is looked up again.
	Build func(ctx context.Context, spec *workload.Spec, refresh bool, progress func(manager.Event)) error
	// Verify verifies the image of the Spec as the Spec demands.
	Verify func(ctx context.Context, spec *workload.Spec, progress func(manager.Event)) (Verified, error)
	// Builder has the images that were built here.
	Builder func(ctx context.Context) (*build.Builder, error)
	// Newest returns the version that a package means now.
	Newest func(ctx context.Context, pkg workload.Package) (string, error)
}

// Verified is the image to run: Spec.Image, or the digest that was verified, and who signed
// it.
type Verified struct{ Ref, Digest, Signer string }

// target is what a name means, as far as it is known without its image.
type target struct {
	image     string // reference
	requested string // version of the package
	entry     string // version of the registry's entry
}

// errOther: the entry of the registry names another program.
var errOther = errors.New("the registry's entry names another program now")

// Check looks up what the name of a workload means now. A name that cannot be looked up is
// [Unknown], with the reason; the error is about the workload itself.
func (u *Upgrader) Check(ctx context.Context, name string) (Finding, error) {
	spec, err := u.Store.Get(name)
	if err != nil {
		return Finding{}, err
	}
	f := Finding{Name: name, Source: spec.Source.Ref}
	if spec.Remote != nil {
		f.State = Remote
		return f, nil
	}
	ran := resolved(spec)
	t, err := u.target(ctx, spec, ran)
	if err == nil {
		if spec.Package != nil {
			err = u.checkPackage(ctx, spec, ran, t, &f)
		} else {
			err = u.checkImage(ctx, ran, t, &f)
		}
	}
	if ctx.Err() != nil {
		return Finding{}, ctx.Err()
	}
	if err != nil {
		f.State, f.Reason = Unknown, err.Error()
		if errors.Is(err, errOther) {
			f.State = Changed
		}
	}
	return f, nil
}

// resolved is what the Spec records, or for a workload of an older version of thv what its
// other fields tell.
func resolved(spec *workload.Spec) workload.Resolved {
	if spec.Resolved != nil {
		return *spec.Resolved
	}
	r := workload.Resolved{Image: spec.Image, Entry: spec.Source.Version}
	if spec.Package != nil {
		r.Version, r.Requested = spec.Package.Version, spec.Package.Version
		if asked, err := build.ParseRef(spec.Source.Ref); err == nil && spec.Source.Kind == source.KindPackage {
			r.Requested = asked.Version
		}
	}
	return r
}

// target finds what the name of a workload means. The version of an entry is its own; what
// else changed in it (variables, permissions) is not taken over.
func (u *Upgrader) target(ctx context.Context, spec *workload.Spec, ran workload.Resolved) (target, error) {
	t := target{image: spec.Image, requested: ran.Requested, entry: spec.Source.Version}
	if spec.Source.Kind != source.KindRegistry {
		return t, nil
	}
	catalog, err := u.Catalog()
	if err != nil {
		return t, err
	}
	if catalog.Location() != spec.Source.Registry {
		return t, fmt.Errorf("it is from the registry %s, and %s is configured", spec.Source.Registry, catalog.Location())
	}
	found, err := source.Resolve(ctx, source.Request{
		Arg: spec.Source.Ref, Args: spec.Args, Transport: spec.Transport, Permissions: true, Mounts: true, Network: true,
		Catalog: func() (registry.Catalog, error) { return catalog, nil },
	})
	if err != nil {
		return t, err
	}
	t.entry = found.Spec.Source.Version
	switch pkg := found.Spec.Package; {
	case found.Spec.Source.Kind != source.KindRegistry, (pkg == nil) != (spec.Package == nil):
		return t, fmt.Errorf("%w; remove the workload and run it again to take it", errOther)
	case pkg != nil:
		if pkg.Scheme != spec.Package.Scheme || pkg.Name != spec.Package.Name {
			return t, fmt.Errorf("%w: %s://%s; remove the workload and run it again to take it", errOther, pkg.Scheme, pkg.Name)
		}
		t.requested = pkg.Version
	default:
		if !sameRepository(found.Spec.Image, ran.Image) {
			return t, fmt.Errorf("%w: %s; remove the workload and run it again to take it", errOther, found.Spec.Image)
		}
		t.image = found.Spec.Image
	}
	return t, nil
}

func sameRepository(a, b string) bool {
	x, err := reference.ParseNormalizedNamed(a)
	if err != nil {
		return false
	}
	y, err := reference.ParseNormalizedNamed(b)
	return err == nil && x.Name() == y.Name()
}

func (u *Upgrader) checkPackage(ctx context.Context, spec *workload.Spec, ran workload.Resolved, t target, f *Finding) error {
	f.Running = ran.Version
	if ran.Version == build.LocalVersion {
		f.State, f.Reason = Local, "thv upgrade compiles the directory again"
		return nil
	}
	if t.requested != "" && t.requested == ran.Version {
		f.State = Pinned
		if spec.Source.Kind == source.KindRegistry {
			f.State = Current // the registry decides which version
		}
		return nil
	}
	pkg := *spec.Package
	pkg.Version = t.requested
	newest, err := u.Newest(ctx, pkg)
	if err != nil {
		return err
	}
	f.compare(newest)
	return nil
}

func (f *Finding) compare(available string) {
	f.State = Current
	if available != f.Running {
		f.State, f.Available = Outdated, available
	}
}

func (u *Upgrader) checkImage(ctx context.Context, ran workload.Resolved, t target, f *Finding) error {
	f.Running = ran.Digest
	if named, err := reference.ParseNormalizedNamed(t.image); err == nil && t.image == ran.Image {
		if _, ok := named.(reference.Digested); ok {
			f.State = Pinned
			return nil
		}
	}
	engine, err := u.Engine(ctx)
	if err != nil {
		return err
	}
	if local, err := madeHere(ctx, engine, t.image); err != nil {
		return err
	} else if local != "" {
		f.State, f.Running = Local, ran.ImageID
		if ran.ImageID != "" && local != ran.ImageID {
			f.State, f.Available = Outdated, local
		}
		return nil
	}
	digest, err := build.RegistryDigest(ctx, engine, t.image)
	if err != nil {
		return err
	}
	f.compare(digest)
	// The engine may know the image by several digests: of an index, and of its part.
	if image, err := engine.Image(ctx, ran.ImageID); f.State == Outdated && ran.ImageID != "" && err == nil {
		for _, d := range image.Digests {
			if strings.HasSuffix(d, "@"+digest) {
				f.State, f.Available = Current, ""
			}
		}
	}
	return nil
}

// madeHere returns the id of the image that a reference has on this engine, when it was
// never at a registry; "" otherwise.
func madeHere(ctx context.Context, engine container.Engine, ref string) (id string, err error) {
	image, err := engine.Image(ctx, ref)
	switch {
	case errors.Is(err, container.ErrNotFound):
		return "", nil
	case err != nil:
		return "", err
	case workload.DigestFor(ref, image.Digests) != "":
		return "", nil
	}
	return image.ID, nil
}
