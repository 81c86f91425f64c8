package build

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/toolhaven/toolhaven/internal/container"
)

// The base images of packages that are installed.
const (
	defaultNode   = "node:22-bookworm-slim"
	defaultPython = "python:3.13-slim-bookworm"
)

// baseImage is the image that a request builds on; for Go, what it is compiled in
// where that is not this machine.
func baseImage(r Request) string {
	switch {
	case r.RuntimeImage != "":
		return r.RuntimeImage
	case r.Scheme == schemeNPX:
		return defaultNode
	case r.Scheme == schemeUVX:
		return defaultPython
	default:
		return defaultGo
	}
}

// makeInstalled resolves the version of an npm or PyPI package on the host, then
// has the engine install it on the base image.
func (b *Builder) makeInstalled(ctx context.Context, r Request, k recordKey) (made, error) {
	b.say("looking up %s", r)
	found, err := b.resolve(ctx, r)
	if err != nil {
		return made{}, err
	}
	base, err := b.base(ctx, r)
	if err != nil {
		return made{}, err
	}
	certs, err := b.certificates(r.CACert)
	if err != nil {
		return made{}, err
	}
	what := inputs{
		Recipe: recipe, Scheme: r.Scheme, Name: r.Name, Version: found.version, Arch: k.Arch, Args: r.Args,
		AddPackages: k.AddPackages, Base: base.ID, Content: found.content,
	}
	if r.CACert != "" {
		what.CA = hash(certs)
	}
	image, err := imageTag(what)
	if err != nil {
		return made{}, err
	}
	m := made{image: image, version: found.version, base: base.ID}
	in := installation{
		scheme: r.Scheme, name: r.Name, version: found.version, base: baseImage(r), registry: found.registry, settings: found.settings,
		packages: k.AddPackages, args: r.Args, certs: certs, keepCA: r.CACert != "",
	}
	m.built, err = b.once(ctx, image, func() error { return b.install(ctx, in, image, labels(r, found.version)) })
	if err != nil {
		return made{}, err
	}
	return m, nil
}

// install has the engine install a package and make an image of that. What was
// only needed on the way is removed again.
func (b *Builder) install(ctx context.Context, in installation, image string, labels map[string]string) error {
	b.say("installing %s %s on %s", in.name, in.version, in.base)
	stage := "thv.local/stage:" + hash([]byte(image))[:32]
	defer b.undo(ctx, stage)
	first, second := in.dockerfiles(stage)
	for _, step := range []struct {
		dockerfile string
		settings   []byte
		tag        string
		labels     map[string]string
	}{
		{dockerfile: first, settings: in.settings, tag: stage},
		{dockerfile: second, tag: image, labels: labels},
	} {
		tree, err := in.context(step.dockerfile, step.settings)
		if err != nil {
			return err
		}
		var output stepOutput
		err = b.cfg.Engine.Build(ctx, container.Build{Context: tree, Tags: []string{step.tag}, Labels: step.labels, Log: output.line})
		if ctxErr := context.Cause(ctx); err != nil && ctxErr != nil {
			return fmt.Errorf("the installation of %s %s was stopped: %w", in.name, in.version, ctxErr)
		}
		if err != nil {
			if program := missingProgram(err); program != "" {
				return fmt.Errorf("install %s %s: the base image %s has no %s; name one that has with --runtime-image", in.name, in.version, in.base, program)
			}
			return fmt.Errorf("install %s %s on %s: %w", in.name, in.version, in.base, &installError{err: err, output: output.text.String()})
		}
	}
	return nil
}

// programNotFound matches the errors of Docker and Podman for a program that an image lacks.
var programNotFound = regexp.MustCompile("exec: \"([^\"]+)\": executable file not found|executable file `([^`]+)` not found")

// missingProgram returns the program that the image of a build step lacks; "" when the
// step failed for another reason.
func missingProgram(err error) string {
	m := programNotFound.FindStringSubmatch(err.Error())
	if m == nil {
		return ""
	}
	return m[1] + m[2]
}

// base makes sure that the engine has the base image.
func (b *Builder) base(ctx context.Context, r Request) (container.Image, error) {
	ref := baseImage(r)
	img, err := b.cfg.Engine.Image(ctx, ref)
	if err == nil {
		return img, nil
	}
	if !errors.Is(err, container.ErrNotFound) {
		return container.Image{}, fmt.Errorf("look for the base image: %w", err)
	}
	b.say("pulling the base image %s", ref)
	if err := b.cfg.Engine.Pull(ctx, ref, nil); err != nil {
		if ctxErr := context.Cause(ctx); ctxErr != nil {
			return container.Image{}, fmt.Errorf("pull the base image %s: %w", ref, ctxErr)
		}
		// %v: a base image that is missing is not a package that is missing.
		return container.Image{}, fmt.Errorf("the base image %s is not here and cannot be pulled; name one that the engine has with --runtime-image: %v", ref, err)
	}
	img, err = b.cfg.Engine.Image(ctx, ref)
	if err != nil {
		return container.Image{}, fmt.Errorf("look at the base image: %w", err)
	}
	return img, nil
}

// resolved is a version that a registry has.
type resolved struct {
	version  string
	content  string // the registry's fingerprint of it, where it gives one
	registry string // URL without a password, when it is not the default one
	settings []byte // configuration file of the installer, with what lets it in
}

func (b *Builder) resolve(ctx context.Context, r Request) (resolved, error) {
	if r.Scheme == schemeNPX {
		return b.resolveNPM(ctx, r)
	}
	return b.resolvePyPI(ctx, r)
}

// firstEnv is the first of the variables that is set.
func (b *Builder) firstEnv(keys ...string) string {
	i := slices.IndexFunc(keys, func(k string) bool { return b.cfg.Env(k) != "" })
	if i < 0 {
		return ""
	}
	return b.cfg.Env(keys[i])
}
