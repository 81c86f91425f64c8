package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxHanded is the most files of one message.
const maxHanded = 2

// receiveFiles reads one message and its files.
func receiveFiles(conn *net.UnixConn, message []byte) ([]*os.File, error) {
	rights := make([]byte, unix.CmsgSpace(4*maxHanded))
	// The kernel sets close-on-exec on the files (net's MSG_CMSG_CLOEXEC), and ends
	// a read at the end of a message with files.
	n, m, flags, _, err := conn.ReadMsgUnix(message, rights)
	if err != nil {
		return nil, err
	}
	files, err := parseFiles(rights[:m])
	switch {
	case err != nil:
		return nil, err
	case n == 0 && len(files) == 0:
		return nil, io.EOF
	case n != len(message) || flags&unix.MSG_CTRUNC != 0:
		closeAll(files)
		return nil, errNotHanded
	}
	return files, nil
}

func parseFiles(rights []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, fmt.Errorf("receive files: %w", err)
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("receive files: %w", err)
		}
		for _, fd := range fds {
			// Non-blocking already, so that closing it ends a read.
			files = append(files, os.NewFile(uintptr(fd), "handed over"))
		}
	}
	return files, nil
}

// giver is the guest's end of a handover.
type giver struct {
	mu   sync.Mutex
	conn *net.UnixConn
}

// give hands copies of files over. The caller closes its own.
func (g *giver) give(ticket uint64, files ...syscall.Conn) error {
	fds := make([]int, 0, maxHanded)
	return g.with(files, fds, binary.BigEndian.AppendUint64(nil, ticket))
}

// with collects descriptors. Each is held open until all are sent.
func (g *giver) with(files []syscall.Conn, fds []int, message []byte) error {
	if len(files) == 0 {
		g.mu.Lock()
		defer g.mu.Unlock()
		_, _, err := g.conn.WriteMsgUnix(message, unix.UnixRights(fds...), nil)
		return err
	}
	raw, err := files[0].SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) { sent = g.with(files[1:], append(fds, int(fd)), message) })
	return errors.Join(err, sent)
}

// outlet is the reading end of a process's output in the gateway. It closes itself when
// all output has been read. After the process has ended, the writing end may still be
// held by a process that escaped: the outlet then returns what is in the pipe and does
// not wait for more.
type outlet struct {
	*os.File
	mu    sync.Mutex
	ended bool
}

func (o *outlet) end() {
	o.mu.Lock()
	o.ended = true
	o.mu.Unlock()
	_ = o.SetReadDeadline(time.Unix(1, 0)) // makes a blocked read return
}

func (o *outlet) Read(p []byte) (int, error) {
	n, err := o.read(p)
	if n == 0 && err != nil {
		o.Close()
	}
	return n, err
}

func (o *outlet) read(p []byte) (int, error) {
	n, err := o.File.Read(p)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		return 0, err
	}
	return o.rest(p)
}

// rest reads what is in the pipe without waiting.
func (o *outlet) rest(p []byte) (int, error) {
	pipe, err := o.SyscallConn()
	if err != nil {
		return 0, err
	}
	// The poller fails a read past its deadline before the kernel is called.
	n := 0
	var readErr error
	err = pipe.Control(func(fd uintptr) { n, readErr = unix.Read(int(fd), p) })
	switch {
	case err != nil:
		return 0, err
	case n > 0:
		return n, nil
	case readErr != nil && !errors.Is(readErr, unix.EAGAIN):
		return 0, readErr
	default:
		return 0, io.EOF
	}
}
