package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// wrap adds the operation, and maps to the errors that callers decide on.
func (c *connection) wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	doing := fmt.Sprintf(format, args...)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", doing, err)
	case unanswered(err):
		return fmt.Errorf("%s: %w: %s does not answer any more (%s); see whether the engine still runs", doing, container.ErrUnavailable, c.address, message(err))
	case errdefs.IsNotFound(err):
		return fmt.Errorf("%s: %w: %s", doing, container.ErrNotFound, message(err))
	}
	return fmt.Errorf("%s: %w", doing, &engineError{cause: err})
}

// unanswered reports whether the engine went away: it cannot be dialled, or the
// connection broke before the answer was whole.
func unanswered(err error) bool {
	var dial *net.OpError
	if client.IsErrConnectionFailed(err) || errors.As(err, &dial) {
		return true
	}
	for _, lost := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, lost) {
			return true
		}
	}
	return false
}

// engineError shows an engine's error without the client's prefix.
type engineError struct{ cause error }

func (e *engineError) Error() string { return message(e.cause) }
func (e *engineError) Unwrap() error { return e.cause }

// maxText bounds what is shown of an engine's or registry's text, in bytes.
const maxText = 4 << 10

// message is an error's text as a person may see it: an engine passes on what
// registries and build steps print, and neither may write to a terminal.
func message(err error) string {
	text := strings.TrimPrefix(err.Error(), "Error response from daemon: ")
	if len(text) > maxText {
		text = text[:maxText] + " ..."
	}
	return plaintext.Lines(text)
}

// source is a stream that the caller gives us to send. It remembers its own
// failure, which the client would report as one of the engine's.
type source struct {
	io.Reader
	failed chan error // room for one
}

func newSource(r io.Reader) *source { return &source{Reader: r, failed: make(chan error, 1)} }

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		select {
		case s.failed <- err:
		default:
		}
	}
	return n, err
}

// blame is the stream's own failure if it had one, else err.
func (s *source) blame(err error) error {
	if err == nil {
		return nil
	}
	select {
	case own := <-s.failed:
		return fmt.Errorf("read what is to be sent: %w", own)
	default:
		return err
	}
}
