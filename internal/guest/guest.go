// Package guest is the small supervisor that runs as PID 1 in every workload's
// container, and the gateway's end of the connection (the line) to it.
//
// One byte stream joins the two: the container's standard input and output,
// attached through the engine, so it works with every engine, network mode and
// host, and no port of a container is ever published for the gateway's use.
// Where both are on one machine, a [Shortcut] replaces it: pipes and connections are
// handed over as file descriptors instead of being copied.
//
// The stream is multiplexed with yamux. The gateway opens a stream for each request and
// writes one line of JSON ([request]); the guest answers with one line ([response]).
// After that the stream carries the bytes of the process or connection:
//
//	spawn  starts a server process; the stream is its standard input and output
//	wait   answers when a process has ended, with its exit status
//	kill   ends a process and what it started
//	dial   connects to a TCP address inside the container
//	ports  lists the TCP ports on which something listens
//	state  reports whether a process, or one of its group, is stopped by a signal
//	isolate  accepts what package guest/shut redirects to the guest
//
// After isolate the guest hands over the connections of the container, or opens a stream for
// each, and for each DNS question, with the same two lines: connect, proxy or dns ([Egress]).
//
// The processes' standard error is the container's. When the gateway's end of the
// stream closes, or the container's standard input ends, the guest ends every process
// and exits, so a container never outlives its gateway. As PID 1 it reaps every orphan.
//
// Each server process leads a session and process group of its own and carries
// a mark in its environment. When it ends, its group and every process that still
// carries its mark are killed, so daemons of a server end with it. A process that
// changes both its session and its environment escapes until the container ends.
//
// [Serve] is the guest's side and runs on Linux only; [Connect] is the
// gateway's and runs everywhere.
package guest

import (
	"context"
	"io"
)

// Path is the path of the guest's program in a container.
const Path = "/.thv/guest"

// Process is a server process in a container.
type Process interface {
	// Stdin closes the process's standard input when closed.
	Stdin() io.WriteCloser
	// Stdout ends when the process has closed its standard output, or has ended and
	// its output has been read. A caller that does not read it to the end must call
	// Stop.
	Stdout() io.Reader
	// Wait returns when the process has ended: nil for exit status 0, otherwise an
	// error such as "exit status 1" or "killed by signal 9". Several goroutines may
	// call it.
	Wait() error
	// Frozen reports whether the process cannot run: it, or another process of its
	// group, was stopped by a signal, or the whole container is paused, in which case
	// the guest does not respond before ctx ends.
	Frozen(ctx context.Context) bool
	// Stop closes standard input, gives the process grace to end, then sends
	// SIGTERM, then SIGKILL, to its whole process group (MCP basic/lifecycle,
	// Shutdown). A listener is sent SIGTERM at once. Stop returns when the process has
	// ended. If ctx ends first, the process is killed at once. Output not read by then
	// is dropped. Stopping a process that has ended is not an error.
	Stop(ctx context.Context) error
}
