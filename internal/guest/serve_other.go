//go:build !linux

package guest

import (
	"context"
	"errors"
	"io"
	"os"
)

// Serve runs on Linux only, where containers are.
func Serve(context.Context, io.ReadWriteCloser, *os.File) error {
	return errors.New("thv-guest runs inside Linux containers only")
}

// OpenLine exists where [Serve] does.
func OpenLine(context.Context, string) (io.ReadWriteCloser, error) {
	return nil, errors.New("thv-guest runs inside Linux containers only")
}
