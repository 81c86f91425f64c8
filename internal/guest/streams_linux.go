package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenLine opens the line to the gateway for the process that runs [Serve]: the socket
// at the path shortcut if it is not "" and can be reached, else standard input and
// output. In both cases the end of standard input ends the line.
func OpenLine(ctx context.Context, shortcut string) (io.ReadWriteCloser, error) {
	streams, err := standardStreams()
	if err != nil || shortcut == "" {
		return streams, err
	}
	line, err := dialShortcut(ctx, shortcut)
	choice := overShortcut
	if err != nil {
		choice = overStreams + " " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	if _, err := fmt.Fprintf(streams, "%.900s\n", choice); err != nil || line == nil {
		return streams, err
	}
	go func() {
		_, _ = io.Copy(io.Discard, streams)
		_ = line.Close()
	}()
	return line, nil
}

// shortcutLine has the two connections of a shortcut: the line, and the one on which
// files are handed over.
type shortcutLine struct {
	net.Conn
	files *net.UnixConn
}

func (l *shortcutLine) Close() error {
	return errors.Join(l.Conn.Close(), l.files.Close())
}

func dialShortcut(ctx context.Context, path string) (*shortcutLine, error) {
	dialer := net.Dialer{Timeout: shortcutTimeout}
	line, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	files, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		line.Close()
		return nil, err
	}
	return &shortcutLine{Conn: line, files: files.(*net.UnixConn)}, nil
}

// standardStreams is standard input and output as one connection.
func standardStreams() (io.ReadWriteCloser, error) {
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

// keepInheritedFiles closes files that an engine has left open in the guest for the
// processes that it starts (compare CVE-2024-21626).
func keepInheritedFiles() {
	if unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	for fd := 3; fd < 4096; fd++ { // before Linux 5.11
		unix.CloseOnExec(fd)
	}
}
