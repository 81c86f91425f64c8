package owner

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/guest/program"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// labelTry marks the image and the container of [TryIsolation].
const labelTry = "dev.toolhaven.doctor"

// TryIsolation starts our guest in a container of an empty image, isolated as the servers of
// --isolate-network are, and removes both. The error is why that is not possible here.
func TryIsolation(ctx context.Context, engine container.Engine) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	clean := context.WithoutCancel(ctx)
	const image = "thv.local/doctor:1"
	if err := engine.Build(ctx, container.Build{Context: emptyImage(), Tags: []string{image}, NetworkOff: true}); err != nil {
		return err
	}
	defer func() { _ = engine.RemoveImage(clean, image) }() // another doctor may use it
	built, err := engine.Image(ctx, image)
	if err != nil {
		return err
	}
	guestTar, err := program.Tar(built.Arch)
	if err != nil {
		return err
	}
	cfg := setUp(container.Config{
		Image: built.ID, Entrypoint: []string{guest.Path}, Network: workload.NoNetwork, User: "65532:65532",
		Labels: map[string]string{labelTry: "yes"},
	}, built, true)
	id, err := engine.Create(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Remove(clean, id)) }()
	if err := engine.CopyTo(ctx, id, "/", guestTar); err != nil {
		return err
	}
	streams, err := engine.Attach(ctx, id)
	if err != nil {
		return err
	}
	var output bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&output, io.LimitReader(streams.Stderr, 16<<10)) // ends with the container
	}()
	if err := engine.Start(ctx, id); err != nil {
		_ = streams.Close()
		return err
	}
	line, err := guest.Connect(streams.Stdin, streams.Stdout, streams.Close)
	if err == nil {
		_, err = line.Ports(ctx) // it answers: the filter is set
		_ = line.HangUp()
		_ = line.Close()
	}
	_ = streams.Close()
	if err == nil {
		return nil
	}
	select {
	case <-read:
	case <-ctx.Done():
		return err
	}
	if text := strings.TrimSpace(plaintext.Lines(output.String())); text != "" {
		return errors.New(text)
	}
	return fmt.Errorf("the guest did not start: %w", err)
}

// emptyImage is the context of an image without a file.
func emptyImage() io.Reader {
	text := []byte("FROM scratch\nLABEL " + labelTry + "=yes\n")
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	// A buffer takes everything.
	_ = w.WriteHeader(&tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(text))})
	_, _ = w.Write(text)
	_ = w.Close()
	return &b
}
