package build

import (
	"context"
	"fmt"
	"regexp"

	"github.com/toolhaven/toolhaven/internal/container"
)

// The base images of packages that are installed.
const (
	defaultNode   = "node:22-bookworm-slim"
	defaultPython = "python:3.13-slim-bookworm"
	// defaultRuntime is for Go packages that need packages of a distribution beside them.
	defaultRuntime = "debian:bookworm-slim"
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

// installBuilder makes the images of npm and PyPI packages.
type installBuilder struct{ common }

// make resolves the version of a package on the host, then has the engine install it
// on the base image.
func (b installBuilder) make(ctx context.Context, r Request, k recordKey) (made, error) {
	b.report("looking up %s", r)
	found, err := b.resolve(ctx, r)
	if err != nil {
		return made{}, err
	}
	base, err := b.base(ctx, r)
	if err != nil {
		return made{}, err
	}
	certs, err := b.env().certificates(r.CACert)
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
		packages: k.AddPackages, args: r.Args, certs: certs, keepCA: r.CACert != "", maker: b.cfg.Store,
	}
	m.built, err = b.once(ctx, image, func() error { return b.install(ctx, in, image, b.labels(r, found.version)) })
	if err != nil {
		return made{}, err
	}
	return m, nil
}

// install makes the image of an installed package. The intermediate image is removed.
func (b installBuilder) install(ctx context.Context, in installation, image string, labels map[string]string) error {
	b.report("installing %s %s on %s", in.name, in.version, in.base)
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
		if err := b.build(ctx, in, container.Build{Context: tree, Tags: []string{step.tag}, Labels: step.labels}); err != nil {
			return err
		}
	}
	return nil
}

// build has the engine carry out one Dockerfile of an installation.
func (c common) build(ctx context.Context, in installation, step container.Build) error {
	var output stepOutput
	step.Log = output.line
	err := c.cfg.Engine.Build(ctx, step)
	if ctxErr := context.Cause(ctx); err != nil && ctxErr != nil {
		return fmt.Errorf("the installation of %s %s was stopped: %w", in.name, in.version, ctxErr)
	}
	if err != nil {
		if program := missingProgram(err); program != "" {
			return fmt.Errorf("install %s %s: the base image %s has no %s; name one that has with --runtime-image", in.name, in.version, in.base, program)
		}
		return fmt.Errorf("install %s %s on %s: %w", in.name, in.version, in.base, &installError{err: err, output: output.text.String()})
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

// resolved is a version that a registry has.
type resolved struct {
	version  string
	content  string // the registry's fingerprint of it, where it gives one
	registry string // URL without a password, when it is not the default one
	settings []byte // configuration file of the installer, with its credentials
}

func (b installBuilder) resolve(ctx context.Context, r Request) (resolved, error) {
	if r.Scheme == schemeNPX {
		return npm{b.env()}.resolve(ctx, r)
	}
	return python{b.env()}.resolve(ctx, r)
}
