package docker

import (
	"context"
	"io"
	"net"
	"sync"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/toolhaven/toolhaven/internal/container"
)

// Attach connects to the container's standard streams.
func (e *Engine) Attach(ctx context.Context, id string) (*container.Streams, error) {
	// The connection lives longer than the call that makes it.
	r, err := e.api.ContainerAttach(context.WithoutCancel(ctx), id, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, e.wrap(err, "attach to container %s", short(id))
	}
	stdout, outWriter := io.Pipe()
	stderr, errWriter := io.Pipe()
	go func() {
		// The two streams come interleaved on one connection; a reader that
		// does not read its stream holds up the other.
		_, err := stdcopy.StdCopy(outWriter, errWriter, r.Reader)
		outWriter.CloseWithError(err)
		errWriter.CloseWithError(err)
	}()
	var once sync.Once
	return &container.Streams{
		Stdin:  &halfConn{Conn: r.Conn, closeWrite: r.CloseWrite},
		Stdout: stdout,
		Stderr: stderr,
		Close: func() error {
			once.Do(func() {
				r.Close()
				stdout.Close()
				stderr.Close()
			})
			return nil
		},
	}, nil
}

// halfConn is the writing half of a connection.
type halfConn struct {
	net.Conn
	closeWrite func() error
}

// Close ends the container's standard input; its output can still be read.
func (h *halfConn) Close() error { return h.closeWrite() }
