package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// images are the calls on an engine's local images.
type images struct{ *connection }

// Image describes a local image.
func (s images) Image(ctx context.Context, ref string) (container.Image, error) {
	r, err := s.inspect(ctx, ref)
	if err != nil {
		return container.Image{}, s.wrap(err, "look for image %s", ref)
	}
	image := container.Image{
		ID: r.ID, OS: r.Os, Arch: r.Architecture, Tags: r.RepoTags, Digests: r.RepoDigests, Size: r.Size,
	}
	if c := r.Config; c != nil {
		image.Entrypoint, image.Cmd, image.Env = c.Entrypoint, c.Cmd, c.Env
		image.User, image.Labels = c.User, c.Labels
		for port := range c.ExposedPorts {
			number, protocol, _ := strings.Cut(port, "/")
			if n, err := strconv.ParseUint(number, 10, 16); err == nil && n > 0 && (protocol == "" || protocol == "tcp") {
				image.ExposedPorts = append(image.ExposedPorts, int(n))
			}
		}
		slices.Sort(image.ExposedPorts)
	}
	return image, nil
}

// inspect describes a local image. Podman reads all images for that, and fails ("image not
// known", a plain 500) when any of them is removed meanwhile; it is called again then.
func (s images) inspect(ctx context.Context, ref string) (client.ImageInspectResult, error) {
	for attempt := 1; ; attempt++ {
		r, err := s.api.ImageInspect(ctx, ref)
		if err == nil || attempt == 10 || !errdefs.IsInternal(err) || !strings.Contains(err.Error(), "image not known") {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Pull fetches an image from its registry, with the login that `docker login`
// stored for it, if any.
func (s images) Pull(ctx context.Context, ref string, progress func(container.Progress)) error {
	login, err := registryLogin(ctx, ref, s.env)
	if err != nil {
		return fmt.Errorf("pull %s: %w", ref, err)
	}
	doing := "pull " + ref
	r, err := s.api.ImagePull(ctx, ref, client.ImagePullOptions{RegistryAuth: login.header})
	if err != nil {
		return s.registryError(err, doing, login)
	}
	defer r.Close()
	err = messages(r, func(m jsonstream.Message) {
		if progress != nil {
			progress(progressOf(m))
		}
	})
	if err != nil {
		return s.registryError(cmp.Or(ctx.Err(), err), doing, login)
	}
	// A stream that ends is no proof that the image was stored.
	if _, err := s.Image(ctx, ref); err != nil {
		return fmt.Errorf("pull %s: the engine reported no error, but: %w", ref, err)
	}
	return nil
}

func progressOf(m jsonstream.Message) container.Progress {
	p := container.Progress{ID: plaintext.Lines(m.ID), Status: plaintext.Lines(cmp.Or(m.Status, strings.TrimSpace(m.Stream)))}
	if m.Progress != nil {
		p.Current, p.Total = max(0, m.Progress.Current), max(0, m.Progress.Total)
	}
	return p
}

// RegistryDigest returns the digest of a reference at its registry.
func (s images) RegistryDigest(ctx context.Context, ref string) (string, error) {
	doing := "look up " + ref + " at its registry"
	if s.podman.Load() {
		return "", fmt.Errorf("%s: %w", doing, container.ErrUnsupported)
	}
	login, err := registryLogin(ctx, ref, s.env)
	if err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	r, err := s.api.DistributionInspect(ctx, ref, client.DistributionInspectOptions{EncodedRegistryAuth: login.header})
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "page not found") {
		return "", fmt.Errorf("%s: %w", doing, container.ErrUnsupported)
	}
	if err != nil {
		return "", s.registryError(err, doing, login)
	}
	if err := r.Descriptor.Digest.Validate(); err != nil {
		return "", fmt.Errorf("%s: the engine reports the digest %.100q: %w", doing, r.Descriptor.Digest, err)
	}
	return r.Descriptor.Digest.String(), nil
}

// registryError distinguishes a missing image from a registry that refuses; engines report
// much of both as plain text.
func (s images) registryError(err error, doing string, login login) error {
	text := strings.ToLower(err.Error())
	contains := func(signs ...string) bool {
		return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(text, sign) })
	}
	note := ""
	if login.trouble != "" {
		note = "; the stored login was not used: " + login.trouble
	}
	switch {
	case contains("no matching manifest", "no image found in image index", "no image found in manifest list"):
		return fmt.Errorf("%s: the image is not made for this engine's platform; choose another tag or image, or, on an engine that runs another platform's programs (binfmt_misc), run `docker pull --platform OS/ARCH IMAGE` first: %w", doing, &engineError{cause: err})
	case errdefs.IsNotFound(err), contains("manifest unknown", "name unknown", "not found", "does not exist"):
		return fmt.Errorf("%s: the registry has no such image, or shows it only after a login (`docker login %s`); check the name and tag: %w (%s)%s", doing, login.host, container.ErrNotFound, message(err), note)
	case contains("unauthorized", "authentication required", "denied", "no basic auth credentials"):
		return fmt.Errorf("%s: the registry does not let you read it; log in with `docker login %s`: %w%s", doing, login.host, &engineError{cause: err}, note)
	}
	return s.wrap(err, "%s", doing)
}

// Load takes an image in the tar form of `docker save`.
func (s images) Load(ctx context.Context, image io.Reader) error {
	content := newSource(image)
	r, err := s.api.ImageLoad(ctx, content, client.ImageLoadWithQuiet(true))
	if err != nil {
		return s.wrap(content.blame(err), "load an image")
	}
	defer r.Close()
	err = messages(r, func(jsonstream.Message) {})
	return s.wrap(cmp.Or(ctx.Err(), content.blame(err)), "load an image")
}

// Build builds an image from a context tar that holds a Dockerfile, with the
// classic builder, which every engine has.
func (s images) Build(ctx context.Context, b container.Build) error {
	opts := client.ImageBuildOptions{
		Version: build.BuilderV1,
		Tags:    b.Tags, Labels: b.Labels,
		Remove: true, ForceRemove: true,
	}
	if b.NetworkOff {
		opts.NetworkMode = "none"
	}
	doing := "build image " + strings.Join(b.Tags, ", ")
	content := newSource(b.Context)
	r, err := s.api.ImageBuild(ctx, content, opts)
	if err != nil {
		return s.wrap(content.blame(err), "%s", doing)
	}
	defer r.Body.Close()
	var last lastLines
	built := false
	err = messages(r.Body, func(m jsonstream.Message) {
		last.take(m.Stream, b.Log)
		built = built || m.Aux != nil || strings.HasPrefix(m.Stream, "Successfully built ")
	})
	if err == nil && !built {
		err = errors.New("the builder ended without an image")
	}
	if err = cmp.Or(ctx.Err(), content.blame(err)); err != nil {
		return fmt.Errorf("%w%s", s.wrap(err, "%s", doing), last)
	}
	return nil
}

// RemoveImage removes a local image.
func (s images) RemoveImage(ctx context.Context, ref string) error {
	_, err := s.api.ImageRemove(ctx, ref, client.ImageRemoveOptions{PruneChildren: true})
	switch {
	case err == nil || errdefs.IsNotFound(err):
		return nil
	case errdefs.IsConflict(err), strings.Contains(err.Error(), "is in use by"): // Podman 4: a plain 500
		return fmt.Errorf("remove image %s: %w: %s", ref, container.ErrInUse, message(err))
	}
	return s.wrap(err, "remove image %s", ref)
}

// Images lists local images by label.
func (s images) Images(ctx context.Context, labels map[string]string) ([]container.Image, error) {
	filters := client.Filters{}
	for key, value := range labels {
		if value != "" {
			key += "=" + value
		}
		filters = filters.Add("label", key)
	}
	r, err := s.api.ImageList(ctx, client.ImageListOptions{Filters: filters})
	if err != nil {
		return nil, s.wrap(err, "list images")
	}
	var found []container.Image
	for _, i := range r.Items {
		if !carries(i.Labels, labels) {
			continue // Podman lists images that carry any of the labels
		}
		tags := slices.DeleteFunc(slices.Clone(i.RepoTags), func(tag string) bool { return tag == "<none>:<none>" })
		found = append(found, container.Image{ID: i.ID, Tags: tags, Digests: i.RepoDigests, Labels: i.Labels, Size: i.Size})
	}
	return found, nil
}

// carries reports whether something has all the labels. A value of "" stands for any.
func carries(has, labels map[string]string) bool {
	for key, value := range labels {
		if got, there := has[key]; !there || value != "" && got != value {
			return false
		}
	}
	return true
}
