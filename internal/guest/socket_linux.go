package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// ServeSocket runs the guest in a container whose gateway is in another container of the same
// pod. It listens on the Unix socket at path, which a directory that both containers mount
// holds, and serves one line at a time: when a line ends, so do its processes, and the
// gateway, which may have been restarted, connects again. argv is the command line of a spawn
// without one. The guest needs no privileges.
//
// It returns on SIGTERM or SIGINT, or when ctx ends; every process has ended by then. After a
// signal it serves a line on to its end, but not for longer than drain: a pod that ends sends
// SIGTERM to all containers at once, and its gateway ends the line when its calls have ended.
// As [Serve], it must be all that its process does.
func ServeSocket(ctx context.Context, path string, drain time.Duration, argv []string, stderr *os.File) error {
	keepInheritedFiles()
	stop, release, err := become()
	if err != nil {
		return err
	}
	defer release()
	listener, err := listenAt(path)
	if err != nil {
		return err
	}
	defer listener.Close()
	line, endLine := context.WithCancel(ctx)
	defer endLine()
	ctx, end := context.WithCancel(ctx)
	defer end()
	go func() {
		select {
		case <-stop:
			end()
			time.AfterFunc(drain, endLine)
		case <-ctx.Done():
		}
	}()
	for {
		err := serveNext(ctx, line, listener, argv, stderr)
		if errors.Is(err, errStopped) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// listenAt listens on a socket, in the place of one that a container before this one left. Who
// may connect is decided by who mounts the directory: the gateway may have another user.
func listenAt(path string) (*net.UnixListener, error) {
	err := os.MkdirAll(filepath.Dir(path), 0o777)
	if removeErr := os.Remove(path); err == nil && !errors.Is(removeErr, fs.ErrNotExist) {
		err = removeErr
	}
	var l *net.UnixListener
	if err == nil {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	}
	if err == nil {
		err = os.Chmod(path, 0o666)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for the gateway: %w", err)
	}
	return l, nil
}

// serveNext accepts one line, unless ctx ends before, and serves it to its end, or until line ends.
func serveNext(ctx, line context.Context, l *net.UnixListener, argv []string, stderr *os.File) error {
	s := newSupervisor(stderr)
	s.argv = argv
	reaping, endReaping := context.WithCancel(context.WithoutCancel(ctx))
	reaped := make(chan struct{})
	go func() { defer close(reaped); s.reap(reaping) }()
	// The next supervisor is then the only waiter for children.
	defer func() { endReaping(); <-reaped }()

	type accepted struct {
		conn *net.UnixConn
		err  error
	}
	next := make(chan accepted, 1)
	go func() {
		conn, err := l.AcceptUnix() // ends with the listener
		next <- accepted{conn, err}
	}()
	select {
	case a := <-next:
		if a.err != nil {
			return fmt.Errorf("accept the gateway: %w", a.err)
		}
		return s.serve(line, a.conn, nil)
	case <-ctx.Done():
	}
	return errStopped
}
