package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ShortcutDir is where a [Shortcut]'s directory is mounted in a container, and
// ShortcutSocket the socket in it, as the guest's one argument.
const (
	ShortcutDir    = "/.thv/line"
	ShortcutSocket = ShortcutDir + "/" + socketName
)

const socketName = "s"

// The first word that a guest with a shortcut writes to its standard output: which
// connection it uses. The reason follows overStreams.
const (
	overShortcut = "shortcut"
	overStreams  = "streams"
)

const (
	// shortcutTimeout bounds the wait for a connection, which the kernel makes at once
	// or never.
	shortcutTimeout = 2 * time.Second
	// stderrWait is how long the engine may take to deliver what processes wrote to
	// standard error before the guest exited.
	stderrWait = 5 * time.Second
	// maxChoice bounds the guest's first line, in bytes.
	maxChoice = 1 << 10
)

// Shortcut is a Unix socket in a directory of this machine that is mounted into the
// guest's container. It bypasses the engine, which copies each message four times. It
// cannot be reached when the engine runs on another machine or in a virtual one, or when
// the system's policy forbids it; the guest then reports that and uses its standard
// streams.
//
// The guest is the first program in the container. No connection is accepted after the
// guest's own: the socket is removed before a server starts.
type Shortcut struct {
	dir      string
	listener *net.UnixListener
}

// OpenShortcut listens in dir, which it creates anew. The caller must choose a dir that
// only this user, and a container it is mounted into, can reach.
func OpenShortcut(dir string) (*Shortcut, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("prepare the line to the container: %w", err)
	}
	if err := os.Mkdir(dir, 0o711); err != nil {
		return nil, fmt.Errorf("prepare the line to the container: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, socketName), Net: "unix"})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the line to the container: %w", err), os.RemoveAll(dir))
	}
	s := &Shortcut{dir: dir, listener: l}
	// The guest runs as the image's user, which has no account on this machine.
	if err := errors.Join(os.Chmod(dir, 0o711), os.Chmod(filepath.Join(dir, socketName), 0o666)); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the line to the container: %w", err), s.Close())
	}
	return s, nil
}

// Dir is the directory to mount, read-only, at [ShortcutDir].
func (s *Shortcut) Dir() string { return s.dir }

// Close removes the socket and its directory.
func (s *Shortcut) Close() error {
	return errors.Join(s.listener.Close(), os.RemoveAll(s.dir))
}

// take waits for the guest's choice and accepts its connections: the line, and the one
// on which files are handed over. Both are nil if the guest uses the streams; detour is
// its reason.
func (s *Shortcut) take(ctx context.Context, stdout io.Reader) (conn, files *net.UnixConn, detour string, err error) {
	type choice struct {
		line []byte
		err  error
	}
	chosen := make(chan choice, 1)
	go func() {
		line, err := readLine(io.LimitReader(stdout, maxChoice))
		chosen <- choice{line, err}
	}()
	var c choice
	select {
	case c = <-chosen:
	case <-ctx.Done():
		return nil, nil, "", context.Cause(ctx) // the caller ends the read
	}
	word, reason, _ := strings.Cut(string(c.line), " ")
	switch {
	case errors.Is(c.err, io.EOF), errors.Is(c.err, io.ErrUnexpectedEOF):
		return nil, nil, "", ErrLineLost
	case c.err != nil:
		return nil, nil, "", c.err
	case word == overStreams:
		return nil, nil, reason, nil
	case !bytes.Equal(c.line, []byte(overShortcut)):
		return nil, nil, "", fmt.Errorf("the container began with %.40q", c.line)
	}
	if err := s.listener.SetDeadline(time.Now().Add(shortcutTimeout)); err != nil {
		return nil, nil, "", err
	}
	if conn, err = s.listener.AcceptUnix(); err != nil {
		return nil, nil, "", err
	}
	if files, err = s.listener.AcceptUnix(); err != nil {
		conn.Close()
		return nil, nil, "", err
	}
	return conn, files, "", nil
}
