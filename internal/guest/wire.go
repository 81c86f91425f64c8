package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// The operations of a request.
const (
	opSpawn = "spawn"
	opWait  = "wait"
	opKill  = "kill"
	opDial  = "dial"
	opPorts = "ports"
	opState = "state"

	opIsolate = "isolate"
)

// The operations of a stream that the guest opens, for a connection or a question from
// inside.
const (
	// opConnect is a connection to the address of the request.
	opConnect = "connect"
	// opProxy is a connection to the guest's own port, as that of an HTTP proxy.
	opProxy = "proxy"
	// opDNS carries DNS messages, each after its length (RFC 1035 section 4.2.2).
	opDNS = "dns"
	// opRejectedUDP and opRejectedICMP carry nothing: the packet filter has rejected a
	// datagram to the address.
	opRejectedUDP  = "rejected-udp"
	opRejectedICMP = "rejected-icmp"
)

const (
	// maxLine bounds a request and a response, in bytes. A command line may be
	// long: Linux allows 2 MiB of arguments and environment together.
	maxLine = 1 << 20
	// maxGrace bounds the grace of a kill.
	maxGrace = time.Minute
)

// request is the first line of a stream.
type request struct {
	Op string `json:"op"`
	// Argv is the command line of a spawn; empty is the guest's own ([ServeSocket]).
	Argv []string `json:"argv,omitempty"`
	// Env are variables, NAME=VALUE, of the process of a spawn. They replace those of the
	// container's environment, and are not in the container's configuration.
	Env []string `json:"env,omitempty"`
	// Listens marks the process of a spawn as one that clients reach at a port: it
	// ends on SIGTERM and not at the end of its input.
	Listens bool `json:"listens,omitempty"`
	// Process is the process of a wait, kill or state: the number in the response to spawn.
	Process int64 `json:"process,omitempty"`
	// GraceMillis is the time that a kill leaves the process to end by itself, and
	// again after SIGTERM, in milliseconds. 0 kills at once.
	GraceMillis int64 `json:"graceMs,omitempty"`
	// Address is the host:port of a dial.
	Address string `json:"address,omitempty"`
	// Ticket is the number under which the opened files are to be handed over. With
	// 0 the stream carries their data.
	Ticket uint64 `json:"ticket,omitempty"`
}

// response is the guest's response to a request.
type response struct {
	// Error is a message for users. If it is set, nothing else is.
	Error string `json:"error,omitempty"`
	// Process is the number of a spawned process, never used twice.
	Process int64 `json:"process,omitempty"`
	// Code is the exit status. Signal is the signal that killed the process, or 0.
	Code   int `json:"code,omitempty"`
	Signal int `json:"signal,omitempty"`
	// Ports is the response to ports.
	Ports []int `json:"ports,omitempty"`
	// Stopped is the response to state.
	Stopped bool `json:"stopped,omitempty"`
}

// parseRequest reads the first line of a stream strictly.
func parseRequest(line []byte) (request, error) {
	var req request
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return request{}, fmt.Errorf("the request is not understood: %v", err)
	}
	if dec.InputOffset() != int64(len(line)) {
		return request{}, errors.New("the request is not understood: more than one value")
	}
	return req, req.validate()
}

func (r *request) validate() error {
	switch r.Op {
	case opSpawn:
		if len(r.Argv) > 0 && r.Argv[0] == "" {
			return errors.New("spawn needs a program to run")
		}
		for _, arg := range r.Argv {
			if strings.ContainsRune(arg, 0) {
				return errors.New("an argument holds a NUL byte, which no program can receive")
			}
		}
		for _, variable := range r.Env {
			if strings.IndexByte(variable, '=') < 1 || strings.ContainsRune(variable, 0) {
				return errors.New("a variable is not NAME=VALUE")
			}
		}
	case opWait, opPorts, opState, opIsolate:
	case opKill:
		if r.GraceMillis < 0 || r.GraceMillis > maxGrace.Milliseconds() {
			return fmt.Errorf("the grace of a kill must be from 0 to %s", maxGrace)
		}
	case opDial:
		if r.Address == "" {
			return errors.New("dial needs an address")
		}
	default:
		return fmt.Errorf("unknown operation %.40q", r.Op)
	}
	return nil
}

// exitError is the error that Process.Wait returns for a process that has ended.
func (r *response) exitError() error {
	switch {
	case r.Error != "":
		return errors.New(r.Error)
	case r.Signal != 0:
		return fmt.Errorf("killed by signal %d", r.Signal)
	case r.Code != 0:
		return fmt.Errorf("exit status %d", r.Code)
	default:
		return nil
	}
}

func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(line) > maxLine {
		return fmt.Errorf("%d bytes are more than the %d the line to a container takes", len(line), maxLine)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// readLine reads up to the line break and not a byte further: what follows is data of
// the stream. It returns the line without the break.
func readLine(r io.Reader) ([]byte, error) {
	var line []byte
	var b [1]byte
	for {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return nil, err
		}
		if b[0] == '\n' {
			return line, nil
		}
		if len(line) == maxLine {
			return nil, fmt.Errorf("the line is longer than %d bytes", maxLine)
		}
		line = append(line, b[0])
	}
}
