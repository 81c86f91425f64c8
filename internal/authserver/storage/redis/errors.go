package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
)

var errUnexpected = errors.New("the connection failed, or it did not answer as Redis does")

// fault is an error of this package. Its text may be shown.
type fault struct{ error }

func (f fault) Unwrap() error { return errors.Unwrap(f.error) }

func faultf(format string, args ...any) error { return fault{fmt.Errorf(format, args...)} }

// unreachable returns the error of an operation. ErrNotFound is the answer nil.
func unreachable(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, goredis.Nil):
		return storage.ErrNotFound
	case ctx.Err() != nil:
		return fmt.Errorf("reach Redis: %w", ctx.Err())
	}
	// A connection has the deadline of its context, and may notice it first.
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return fmt.Errorf("reach Redis: %w", context.DeadlineExceeded)
	}
	return fmt.Errorf("reach Redis: %w", cause(err))
}

// cause returns the part of an error that may be shown. A text of the server may repeat what
// it was sent: an older one answers HELLO with its arguments, among them the password. Errors
// of the library may have bytes of an answer.
func cause(err error) error {
	var own fault
	var answer goredis.Error
	var network *net.OpError
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &answer):
		return errors.New("it answered " + code(answer.Error()))
	case errors.As(err, &network):
		return network
	case errors.As(err, &name):
		return name
	case errors.As(err, &certificate):
		return certificate
	}
	for _, known := range []error{
		context.DeadlineExceeded, context.Canceled, os.ErrDeadlineExceeded, io.EOF, io.ErrUnexpectedEOF,
		goredis.ErrClosed, goredis.ErrPoolTimeout, goredis.ErrPoolExhausted,
	} {
		if errors.Is(err, known) {
			return known
		}
	}
	return errUnexpected
}

// codePattern is the word with which an error reply begins (RESP, Simple errors).
var codePattern = regexp.MustCompile(`^[A-Z]{2,20}\b`)

func code(reply string) string {
	if c := codePattern.FindString(reply); c != "" {
		return c
	}
	return "with an error"
}
