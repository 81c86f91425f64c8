//go:build !linux

package guest

import (
	"errors"
	"net"
	"os"
)

// receiveFiles exists where containers share the machine with the gateway.
func receiveFiles(*net.UnixConn, []byte) ([]*os.File, error) {
	return nil, errors.New("files are handed over on Linux only")
}

// outlet is never made here.
type outlet struct{ *os.File }

func (o *outlet) end() {}
