//go:build !linux

package guest

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// Serve fails: it is for Linux containers.
func Serve(context.Context, io.ReadWriteCloser, *os.File, *os.File) error {
	return errors.New("thv-guest runs inside Linux containers only")
}

// OpenLine is for [Serve] and fails as it does.
func OpenLine(context.Context, string) (io.ReadWriteCloser, error) {
	return nil, errors.New("thv-guest runs inside Linux containers only")
}

// ServeSocket fails as [Serve] does.
func ServeSocket(context.Context, string, time.Duration, []string, *os.File) error {
	return errors.New("thv-guest runs inside Linux containers only")
}

func inherited(int) *os.File { return nil }
