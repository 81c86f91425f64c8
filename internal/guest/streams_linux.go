package guest

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// StandardStreams is the line to the gateway of the process that runs [Serve]:
// its standard input and output.
func StandardStreams() (io.ReadWriteCloser, error) {
	if _, err := unix.IoctlGetTermios(0, unix.TCGETS); err == nil {
		return nil, errors.New("this program is started by thv inside the containers of its workloads; it does nothing at a terminal")
	}
	keepInheritedFiles()
	// Non-blocking, so that closing them makes a blocked read or write return.
	for fd := range 2 {
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, fmt.Errorf("prepare file %d: %w", fd, err)
		}
	}
	out := os.NewFile(1, "stdout")
	return &pair{Reader: os.NewFile(0, "stdin"), WriteCloser: out, close: func() error { return nil }}, nil
}

// keepInheritedFiles keeps whatever files an engine has left open in us from
// the processes we start (compare CVE-2024-21626).
func keepInheritedFiles() {
	if unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	for fd := 3; fd < 4096; fd++ { // before Linux 5.11
		unix.CloseOnExec(fd)
	}
}
