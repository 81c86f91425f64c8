package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
)

// Over a [Shortcut] the guest hands over what it has opened, as open files (unix(7),
// SCM_RIGHTS): the pipes of a process, a connection inside the container. After that
// the gateway and the server are connected directly. The files arrive on a second
// connection, each message with the number of the request for them.

// outgoingTicket is the number of a file that was not requested: a connection of a program
// in an isolated container.
const outgoingTicket = 0

// ticketSize is the number of a request, in bytes.
const ticketSize = 8

// handover is the gateway's end.
type handover struct {
	conn *net.UnixConn

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan []*os.File
	err     error // why nothing more comes
	// outgoing receives the connections of programs; nil closes them.
	outgoing func(*os.File)
}

func newHandover(conn *net.UnixConn) *handover {
	h := &handover{conn: conn, waiting: map[uint64]chan []*os.File{}}
	go h.receive()
	return h
}

// expect assigns a number to a request and returns the channel for its files.
func (h *handover) expect() (uint64, <-chan []*os.File) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	files := make(chan []*os.File, 1)
	if h.err != nil {
		close(files)
		return h.last, files
	}
	h.waiting[h.last] = files
	return h.last, files
}

// forget gives a number up: its files are closed, now or when they arrive.
func (h *handover) forget(ticket uint64, files <-chan []*os.File) {
	h.mu.Lock()
	delete(h.waiting, ticket)
	h.mu.Unlock()
	select {
	case left := <-files:
		closeAll(left)
	default:
	}
}

func (h *handover) receive() {
	defer h.conn.Close()
	for {
		var ticket [ticketSize]byte
		files, err := receiveFiles(h.conn, ticket[:])
		if err != nil {
			h.fail(err)
			return
		}
		if n := binary.BigEndian.Uint64(ticket[:]); n == outgoingTicket {
			h.serve(files)
		} else {
			h.deliver(n, files)
		}
	}
}

// serve starts to serve a connection of a program.
func (h *handover) serve(files []*os.File) {
	h.mu.Lock()
	outgoing := h.outgoing
	h.mu.Unlock()
	if outgoing == nil || len(files) != 1 {
		closeAll(files)
		return
	}
	outgoing(files[0])
}

func (h *handover) deliver(ticket uint64, files []*os.File) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wanted := h.waiting[ticket]
	if wanted == nil {
		closeAll(files)
		return
	}
	delete(h.waiting, ticket)
	wanted <- files // there is room for it
}

func (h *handover) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
	for ticket, files := range h.waiting {
		close(files)
		delete(h.waiting, ticket)
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// pipesOf are the files of a spawn: standard input and output.
func pipesOf(files []*os.File) (stdin, stdout *os.File, err error) {
	if len(files) != 2 {
		closeAll(files)
		return nil, nil, errNotHanded
	}
	return files[0], files[1], nil
}

// connectionOf is the file of a dial.
func connectionOf(files []*os.File) (net.Conn, error) {
	defer closeAll(files) // what follows has a copy
	if len(files) != 1 {
		return nil, errNotHanded
	}
	conn, err := net.FileConn(files[0])
	if err != nil {
		return nil, fmt.Errorf("take over a connection in the container: %w", err)
	}
	return conn, nil
}

// errNotHanded: the other end is not what it should be.
var errNotHanded = errors.New("the container's guest has not handed over what it opened")
