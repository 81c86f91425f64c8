package docker

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/toolhaven/toolhaven/internal/container"
)

// Attach connects to the container's standard streams. The connection outlives
// ctx, which bounds only the making of it. Standard error that is not read holds
// nothing up: past a bound its oldest bytes are dropped, which the stream reports.
func (s containers) Attach(ctx context.Context, id string) (*container.Streams, error) {
	r, err := s.api.ContainerAttach(ctx, id, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, s.attachError(ctx, err, id)
	}
	// The two streams come interleaved on one connection.
	stdout, outWriter := io.Pipe()
	stderr := newSpool()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := stdcopy.StdCopy(outWriter, stderr, r.Reader)
		outWriter.CloseWithError(err)
		stderr.end(err)
	}()
	return &container.Streams{
		Stdin:  &stdin{conn: r.Conn, end: sync.OnceValue(r.CloseWrite)},
		Stdout: stdout,
		Stderr: stderr,
		Close: sync.OnceValue(func() error {
			r.Close()
			stdout.Close()
			stderr.Close()
			<-done // nothing of ours is left behind
			return nil
		}),
	}, nil
}

// attachError: the client drops the engine's error when it cannot switch the
// connection, so the container is inspected.
func (s containers) attachError(ctx context.Context, err error, id string) error {
	if _, gone := s.Inspect(ctx, id); gone != nil {
		return fmt.Errorf("attach to container %s: %w", short(id), gone)
	}
	return s.wrap(err, "attach to container %s", short(id))
}

// stdin is the writing half of a connection.
type stdin struct {
	conn io.Writer
	end  func() error
}

func (s *stdin) Write(p []byte) (int, error) { return s.conn.Write(p) }

// Close ends the container's standard input; its output can still be read.
func (s *stdin) Close() error { return s.end() }
