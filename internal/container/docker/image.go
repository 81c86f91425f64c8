package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	"github.com/toolhaven/toolhaven/internal/container"
)

// Image describes a local image.
func (e *Engine) Image(ctx context.Context, ref string) (container.Image, error) {
	r, err := e.api.ImageInspect(ctx, ref)
	if err != nil {
		return container.Image{}, e.wrap(err, "look for image %s", ref)
	}
	image := container.Image{
		ID: r.ID, Ref: ref, RepoDigests: r.RepoDigests, OS: r.Os, Arch: r.Architecture,
	}
	if c := r.Config; c != nil {
		image.Entrypoint, image.Cmd, image.Env = c.Entrypoint, c.Cmd, c.Env
		image.User, image.WorkingDir, image.Labels = c.User, c.WorkingDir, c.Labels
		for port := range c.ExposedPorts {
			var n int
			if _, err := fmt.Sscanf(port, "%d", &n); err == nil && (strings.HasSuffix(port, "/tcp") || !strings.Contains(port, "/")) {
				image.ExposedPorts = append(image.ExposedPorts, n)
			}
		}
		slices.Sort(image.ExposedPorts)
	}
	return image, nil
}

// Pull fetches an image from its registry.
func (e *Engine) Pull(ctx context.Context, ref string, progress func(container.Progress)) error {
	auth, err := registryAuth(ctx, ref, e.env)
	if err != nil {
		return fmt.Errorf("pull %s: %w", ref, err)
	}
	r, err := e.api.ImagePull(ctx, ref, client.ImagePullOptions{RegistryAuth: auth})
	if err != nil {
		return e.pullError(err, ref)
	}
	defer r.Close()
	for m, err := range r.JSONMessages(ctx) {
		if err != nil {
			return e.pullError(err, ref)
		}
		if m.Error != nil {
			return e.pullError(m.Error, ref)
		}
		if progress != nil {
			progress(progressOf(m))
		}
	}
	return nil
}

func progressOf(m jsonstream.Message) container.Progress {
	p := container.Progress{ID: m.ID, Status: m.Status}
	if m.Progress != nil {
		p.Current, p.Total = m.Progress.Current, m.Progress.Total
	}
	return p
}

// pullError tells a missing image from a registry that cannot be reached; the
// engine reports some of both as plain text.
func (e *Engine) pullError(err error, ref string) error {
	text := message(err)
	for _, sign := range []string{"not found", "manifest unknown", "does not exist", "name unknown"} {
		if errdefs.IsNotFound(err) || strings.Contains(strings.ToLower(text), sign) {
			return fmt.Errorf("pull %s: the image does not exist, or reading it needs a login (`docker login`): %w (%s)", ref, container.ErrNotFound, text)
		}
	}
	return e.wrap(err, "pull %s", ref)
}

// Load takes an image in the tar form of `docker save`.
func (e *Engine) Load(ctx context.Context, image io.Reader) error {
	r, err := e.api.ImageLoad(ctx, image, client.ImageLoadWithQuiet(true))
	if err != nil {
		return e.wrap(err, "load an image")
	}
	defer r.Close()
	_, err = messages(r, func(jsonstream.Message) {})
	if err != nil {
		return e.wrap(err, "load an image")
	}
	return nil
}

// Build builds an image from a context tar that holds a Dockerfile.
func (e *Engine) Build(ctx context.Context, b container.Build) error {
	opts := client.ImageBuildOptions{
		Tags: b.Tags, Labels: b.Labels, BuildArgs: map[string]*string{},
		Remove: true, ForceRemove: true,
	}
	for k, v := range b.BuildArgs {
		opts.BuildArgs[k] = &v
	}
	if b.NetworkOff {
		opts.NetworkMode = "none"
	}
	r, err := e.api.ImageBuild(ctx, b.Context, opts)
	if err != nil {
		return e.wrap(err, "build image %s", strings.Join(b.Tags, ", "))
	}
	defer r.Body.Close()
	last, err := messages(r.Body, func(m jsonstream.Message) {
		if b.Log == nil {
			return
		}
		for line := range strings.Lines(m.Stream) {
			if line = strings.TrimRight(line, "\r\n"); line != "" {
				b.Log(line)
			}
		}
	})
	if err != nil {
		return fmt.Errorf("build image %s: %w; the builder's last output:%s", strings.Join(b.Tags, ", "), err, last)
	}
	return nil
}

// maxMessage bounds one message of an engine's progress stream, in bytes.
const maxMessage = 4 << 20

// messages reads an engine's stream of progress messages to its end and returns
// the last output seen, for the report of a failure.
func messages(r io.Reader, each func(jsonstream.Message)) (lastOutput string, err error) {
	var last []string
	bounded := &io.LimitedReader{R: r, N: maxMessage}
	dec := json.NewDecoder(bounded)
	for {
		var m jsonstream.Message
		bounded.N = maxMessage
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return joined(last), nil
		} else if err != nil {
			return joined(last), fmt.Errorf("the engine's answer cannot be read: %w", err)
		}
		if m.Error != nil {
			return joined(last), errors.New(m.Error.Message)
		}
		each(m)
		for line := range strings.Lines(m.Stream) {
			if line = strings.TrimSpace(line); line != "" {
				last = append(last[max(0, len(last)-19):], line)
			}
		}
	}
}

func joined(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("\n  " + l)
	}
	return b.String()
}

// RemoveImage removes a local image.
func (e *Engine) RemoveImage(ctx context.Context, ref string) error {
	_, err := e.api.ImageRemove(ctx, ref, client.ImageRemoveOptions{PruneChildren: true})
	if err == nil || errdefs.IsNotFound(err) {
		return nil
	}
	return e.wrap(err, "remove image %s", ref)
}
