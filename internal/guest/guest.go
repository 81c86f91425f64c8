// Package guest is the small supervisor that runs as PID 1 in every workload's
// container, and the gateway's end of the line to it.
//
// One byte stream joins the two: the container's standard input and output,
// attached through the engine, so it works with every engine, network mode and
// host, and no port of a container is ever published for the gateway's use.
// Where both are on one machine, a [Shortcut] takes the place of it, and pipes and
// connections are handed over instead of carried.
//
// The stream is multiplexed with yamux; the gateway opens a stream for each thing it
// wants and writes one line of JSON ([request]), the guest answers one line
// ([response]), and from there the stream carries that thing's bytes:
//
//	spawn  starts a server process; the stream is its standard input and output
//	wait   answers when a process has ended, and how
//	kill   ends a process and what it started
//	dial   connects to a TCP address inside the container
//
// The processes' standard error is the container's. When the gateway's end of the
// stream goes away, or the container's standard input ends, the guest ends every
// process and exits, so a container never outlives its gateway. As PID 1 it reaps
// every orphan.
//
// Each server process leads a session and process group of its own and carries
// a mark in its environment; when it ends, its group and everything that still
// carries its mark are killed, so what a server daemonized ends with it. A
// process that changes both its session and its environment escapes until the
// container ends.
//
// [Serve] is the guest's side and runs on Linux only; [Connect] is the
// gateway's and runs everywhere.
package guest

import (
	"context"
	"io"
)

// Path is where the guest's program is put in a container.
const Path = "/.thv/guest"

// Process is a server process in a container.
type Process interface {
	// Stdin closes the process's standard input when closed.
	Stdin() io.WriteCloser
	// Stdout ends when the process has closed its standard output, and when it
	// has ended and what it wrote has been read. Who does not read it to its end
	// must call Stop.
	Stdout() io.Reader
	// Wait returns when the process has ended and says how, for a person:
	// nil for exit status 0, otherwise an error such as "exit status 1" or
	// "killed by signal 9". It may be called by several goroutines.
	Wait() error
	// Stop closes standard input, gives the process grace to end, then sends
	// SIGTERM, then SIGKILL, to its whole process group (MCP basic/lifecycle,
	// Shutdown). A listener is sent SIGTERM at once. It returns when the process has ended. When ctx ends first,
	// the process is killed at once. Output not read by then is dropped.
	// Stopping a process that has ended is no error.
	Stop(ctx context.Context) error
}
