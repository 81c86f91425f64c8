package build

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// ErrNotFound: no such package, or no such version of it.
var ErrNotFound = errors.New("package not found")

// Event is a step of a build, described for a person.
type Event struct{ Message string }

// Config is what a Builder depends on.
type Config struct {
	Engine   container.Engine
	StateDir string              // records are kept in its directory builds
	Store    string              // marks what is built, for [Builder.Images] and [Builder.Sweep]; "" marks nothing
	Env      func(string) string // the person's environment: registries, certificates, Go's settings
	Log      func(Event)         // may be nil
}

// Builder builds images. Its methods may be called concurrently.
type Builder struct{ common }

// New makes a Builder.
func New(cfg Config) *Builder {
	if cfg.Log == nil {
		cfg.Log = func(Event) {}
	}
	return &Builder{common{cfg: &cfg}}
}

// Result is the image of a request.
type Result struct {
	Image   string // tag; the engine has it
	Version string // as resolved; "local" for a directory
	Built   bool   // false: the image was there already
	// Replaced is the image that the same request had before; "" if that is the same.
	Replaced string
}

// made is the image of a request, which the engine has.
type made struct {
	image, version, base string
	built                bool
}

// Build makes the image of a package, unless the engine has it. When it
// fails, or ctx ends, neither an image nor a record is left. The error wraps
// ErrNotFound when there is no such package or version.
func (b *Builder) Build(ctx context.Context, r Request) (Result, error) {
	if err := r.validate(); err != nil {
		return Result{}, fmt.Errorf("build a package: %w", err) // it has no name that could be shown yet
	}
	res, err := b.build(ctx, r)
	if err != nil {
		return Result{}, fmt.Errorf("build %s: %w", r, err)
	}
	return res, nil
}

// Resolve returns the version that a request means now, without building anything. That of
// a directory is "local". The error wraps ErrNotFound when there is no such package or
// version.
func (b *Builder) Resolve(ctx context.Context, r Request) (version string, err error) {
	if err := r.validate(); err != nil {
		return "", fmt.Errorf("look up a package: %w", err)
	}
	switch {
	case r.Dir != "":
		return LocalVersion, nil
	case r.Scheme == schemeGo:
		var info container.Info
		var done func()
		if done, err = b.building(ctx); err != nil {
			break
		}
		defer done()
		if info, err = b.cfg.Engine.Info(ctx); err == nil {
			version, err = goBuilder{b.common}.resolve(ctx, r, info.Arch)
		}
	default:
		var found resolved
		found, err = installBuilder{b.common}.resolve(ctx, r)
		version = found.version
	}
	if err != nil {
		return "", fmt.Errorf("look up %s: %w", r, err)
	}
	return version, nil
}

// LocalVersion is the version of a package that is a directory.
const LocalVersion = "local"

func (b *Builder) build(ctx context.Context, r Request) (Result, error) {
	info, err := b.cfg.Engine.Info(ctx)
	if err != nil {
		return Result{}, err
	}
	if info.OS != "linux" {
		return Result{}, fmt.Errorf("the container engine runs %s containers; packages become linux images", info.OS)
	}
	k := recordKey{
		Recipe: recipe, Scheme: r.Scheme, Name: r.Name, Version: r.Version, Dir: r.Dir, Arch: info.Arch, Args: r.Args,
		RuntimeImage: r.RuntimeImage, AddPackages: slices.Compact(slices.Sorted(slices.Values(r.AddPackages))),
	}
	if r.CACert != "" {
		text, err := readCertificates(r.CACert)
		if err != nil {
			return Result{}, err
		}
		k.CA = hash(text)
	}
	records := b.records()
	if rec, ok := b.reusable(ctx, r, records, k); ok {
		return Result{Image: rec.Image, Version: rec.Version}, b.addTag(ctx, rec.Image, r.Tag)
	}
	done, err := b.building(ctx)
	if err != nil {
		return Result{}, err
	}
	defer done()
	m, err := b.make(ctx, r, k)
	if err != nil {
		return Result{}, err
	}
	if err := b.addTag(ctx, m.image, r.Tag); err != nil {
		return Result{}, err
	}
	img, err := b.cfg.Engine.Image(ctx, m.image)
	if err != nil {
		return Result{}, fmt.Errorf("inspect the image that was made: %w", err)
	}
	res := Result{Image: m.image, Version: m.version, Built: m.built}
	if before, ok := records.get(k); ok && before.Image != m.image {
		res.Replaced = before.Image
	}
	err = records.put(record{Request: k, Version: m.version, Image: m.image, ImageID: img.ID, BaseID: m.base})
	if err != nil {
		return Result{}, err
	}
	return res, nil
}

func (b *Builder) make(ctx context.Context, r Request, k recordKey) (made, error) {
	if r.Scheme == schemeGo {
		return goBuilder{b.common}.make(ctx, r, k)
	}
	return installBuilder{b.common}.make(ctx, r, k)
}

// reusable finds the record of an earlier build whose image the engine still has,
// unless the request is to resolve again.
func (b *Builder) reusable(ctx context.Context, r Request, records records, k recordKey) (record, bool) {
	if r.Refresh || r.Version == "latest" || r.Dir != "" {
		return record{}, false
	}
	rec, ok := records.get(k)
	if !ok {
		return record{}, false
	}
	img, err := b.cfg.Engine.Image(ctx, rec.Image)
	if err != nil || img.ID != rec.ImageID {
		return record{}, false
	}
	if rec.BaseID == "" {
		return rec, true
	}
	// A base image that was replaced under its tag, perhaps by a security fix, requires
	// a new build. One that is gone does not.
	base, err := b.cfg.Engine.Image(ctx, baseImage(r))
	if err == nil && base.ID != rec.BaseID {
		return record{}, false
	}
	return rec, err == nil || errors.Is(err, container.ErrNotFound)
}

// labels describe an image for `docker image ls --filter` and `docker inspect`.
func (c common) labels(r Request, version string) map[string]string {
	pkg := r.Scheme + "://" + r.Name
	if r.Dir != "" {
		pkg = r.String()
	}
	labels := map[string]string{labelPackage: pkg, labelVersion: version, container.LabelUser: container.AnyUser}
	if c.cfg.Store != "" {
		labels[labelMaker] = c.cfg.Store
	}
	if r.Scheme != schemeGo || len(r.AddPackages) > 0 {
		labels[labelStep] = "" // the image itself is no step
	}
	return labels
}

// maxOutput bounds how much of a builder's output an error carries, in bytes.
const maxOutput = 6 << 10

// lastLines returns the end of a program's output, in whole lines where possible and
// without terminal control sequences.
func lastLines(out string) string {
	out = strings.TrimSpace(plaintext.Lines(out))
	lines := strings.Split(out, "\n")
	out = strings.Join(lines[max(0, len(lines)-20):], "\n")
	if len(out) > maxOutput {
		out = "..." + strings.ToValidUTF8(out[len(out)-maxOutput:], "")
	}
	return out
}
