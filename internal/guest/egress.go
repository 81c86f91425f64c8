package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// The guest's ports, on the loopback addresses of an isolated container. EgressPort
// receives the connections that are redirected; for programs that connect to it directly
// it is the port of an HTTP proxy. DNSPort receives DNS questions over UDP.
const (
	EgressPort = 13128
	DNSPort    = 13053
)

// Egress decides about the connections that begin in an isolated container, and serves
// them. Its methods run concurrently. They close conn, which has a method CloseWrite.
type Egress interface {
	// Connect serves a connection to an address. It calls accept before it reads or
	// writes; an error of accept is that the connection is gone. Without accept the
	// program in the container receives a reset.
	Connect(ctx context.Context, conn net.Conn, to netip.AddrPort, accept func() error)
	// Proxy serves a connection of a program that uses an HTTP proxy.
	Proxy(ctx context.Context, conn net.Conn)
	// DNS answers messages, each after its length (RFC 1035 section 4.2.2).
	DNS(ctx context.Context, conn net.Conn)
}

const (
	// maxConnections bounds the connections and questions of a container at the same
	// time. Others are refused.
	maxConnections = 512
	// openTimeout bounds the time until the gateway has accepted a connection.
	openTimeout = 30 * time.Second
)

// Isolate makes the guest accept what the container's programs connect to, and serves it
// with e until the line ends. It must be called before the first Spawn, because the
// guest's ports must be free. It works in a container that was created with
// [SetUp].Isolate.
func (l *Line) Isolate(ctx context.Context, e Egress) error {
	go l.serveEgress(e)
	stream, _, err := l.request(ctx, request{Op: opIsolate})
	if err != nil {
		return fmt.Errorf("isolate the container's network: %w", err)
	}
	return stream.Close()
}

// serveEgress accepts the guest's streams until the line ends.
func (l *Line) serveEgress(e Egress) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, maxConnections)
	for {
		stream, err := l.session.AcceptStream()
		if err != nil {
			cancel()
			return
		}
		slots <- struct{}{} // the guest has the same bound
		running.Go(func() {
			defer func() { <-slots }()
			serveOutgoing(ctx, stream, e)
		})
	}
}

// serveOutgoing serves one stream of the guest.
func serveOutgoing(ctx context.Context, stream *yamux.Stream, e Egress) {
	conn := &tunnel{Stream: stream}
	defer conn.Close()
	_ = stream.SetDeadline(time.Now().Add(openTimeout))
	line, err := readLine(stream)
	if err != nil {
		return
	}
	op, to, err := parseOutgoing(line)
	if err != nil {
		return // it is not our guest
	}
	accept := func() error {
		if err := writeLine(stream, response{}); err != nil {
			return err
		}
		return stream.SetDeadline(time.Time{})
	}
	if op == opConnect {
		e.Connect(ctx, conn, to, accept)
		return
	}
	if accept() != nil {
		return
	}
	if op == opProxy {
		e.Proxy(ctx, conn)
	} else {
		e.DNS(ctx, conn)
	}
}

// outgoing is the first line of a stream that the guest opens.
type outgoing struct {
	Op      string `json:"op"`
	Address string `json:"address,omitempty"`
}

// parseOutgoing reads that line strictly.
func parseOutgoing(line []byte) (op string, to netip.AddrPort, err error) {
	var out outgoing
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&out); err != nil {
		return "", to, fmt.Errorf("the connection is not understood: %v", err)
	}
	switch out.Op {
	case opConnect:
		to, err = netip.ParseAddrPort(out.Address)
		if err != nil {
			return "", to, errors.New("the connection has no valid address")
		}
		return out.Op, netip.AddrPortFrom(to.Addr().Unmap().WithZone(""), to.Port()), nil
	case opProxy, opDNS:
		return out.Op, to, nil
	}
	return "", to, fmt.Errorf("unknown operation %.40q", out.Op)
}

// tunnel is a connection of the container, as a stream. Closing a yamux stream closes one
// direction; Close closes both.
type tunnel struct {
	*yamux.Stream
	closed sync.Once
}

// CloseWrite closes the direction to the container.
func (t *tunnel) CloseWrite() error { return t.Stream.Close() }

// Close closes both directions: the guest closes the connection when the stream's other
// direction ends.
func (t *tunnel) Close() error {
	err := t.Stream.Close()
	t.closed.Do(func() {
		// The stream ends when the guest has closed it too; what it still sends is
		// dropped.
		_ = t.SetReadDeadline(time.Now().Add(closeTimeout))
		go func() { _, _ = io.Copy(io.Discard, t.Stream) }()
	})
	return err
}

// closeTimeout bounds the wait for the other end of a connection that was closed.
const closeTimeout = 5 * time.Second
