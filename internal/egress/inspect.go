package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"time"
)

const (
	// helloTimeout bounds the time from the first byte of a handshake or request line to
	// its last.
	helloTimeout = 30 * time.Second
	// maxRequestLine bounds the first line of a request, in bytes.
	maxRequestLine = 8 << 10
	// maxHello bounds what is read of a TLS handshake, in bytes.
	maxHello = 72 << 10
	// recordHandshake is the type of a TLS record with a handshake (RFC 8446 section 5.1).
	recordHandshake = 0x16
	// extensionECH is the extension encrypted_client_hello (RFC 9849 section 5).
	extensionECH = 0xfe0d
)

// Reasons why a connection to an allowed name is ended.
var (
	errNoServerName = errors.New("the TLS handshake has no server name")
	errServerName   = errors.New("the TLS server name is not an allowed name of this address")
	errECH          = errors.New("the TLS handshake encrypts its server name")
	errHello        = errors.New("the TLS handshake is not valid")
	errHost         = errors.New("the Host of the request is not an allowed name of this address")
	errProtocol     = errors.New("the protocol is not recognized")
)

// inspect carries a connection to an address that names were answered with. What the
// program sends first must not contradict them:
//
//   - TLS must name one of them (RFC 6066 section 3) and not hide the name (RFC 9849);
//   - each request of plain HTTP must have one of them as its Host (RFC 9110 section 7.2);
//   - other protocols carry no name.
//
// When the other side sends first, as in SSH, it is neither TLS nor HTTP.
func (g *Gateway) inspect(ctx context.Context, record Record, conn, out net.Conn, names map[string]bool) {
	inside, fromInside := readAhead(conn)
	outside, fromOutside := readAhead(out)
	select {
	case c := <-fromOutside:
		outside.take(c)
		g.carry(record, inside, outside)
		return
	case c := <-fromInside:
		inside.take(c)
	case <-ctx.Done():
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(helloTimeout))
	name, isHTTP, err := sniff(ctx, inside)
	if err == nil && name != "" && !names[name] {
		err = errServerName
	}
	if err != nil {
		if name != "" {
			record.Name = shown(name)
		}
		g.log.refuse(record, err)
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	if isHTTP {
		g.serveHTTP(ctx, record, inside, outside, names)
		return
	}
	if name != "" {
		record.Name = name
	}
	g.carry(record, inside, outside)
}

// sniff reads what the program sends first, and puts it back. name is the server name of
// a TLS handshake; isHTTP reports a request of HTTP/1. Both are empty for another
// protocol.
func sniff(ctx context.Context, f *firstRead) (name string, isHTTP bool, err error) {
	if len(f.first) == 0 {
		return "", false, nil // it sends nothing
	}
	if f.first[0] == recordHandshake {
		seen := &recorder{from: f, max: maxHello}
		name, err = serverName(ctx, seen)
		f.first = slices.Concat(seen.read.Bytes(), f.first)
		return name, false, err
	}
	line := slices.Clone(f.first)
	f.first = nil
	for undecided(line) {
		if len(line) > maxRequestLine {
			f.first = line
			return "", false, errProtocol
		}
		buf := make([]byte, maxFirst)
		n, err := f.Read(buf)
		line = append(line, buf[:n]...)
		if err != nil {
			f.first, f.err = line, err
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				return "", false, errProtocol
			}
			return "", isRequestLine(line), nil
		}
	}
	f.first = line
	return "", isRequestLine(line), nil
}

// undecided reports whether b may be the start of a request line that is not complete
// (RFC 9112 section 3): a method, a space, and more without a line feed. Servers ignore
// empty lines before it (section 2.2).
func undecided(b []byte) bool {
	b = bytes.TrimLeft(b, "\r\n")
	if bytes.IndexByte(b, '\n') >= 0 {
		return false
	}
	method, rest, found := bytes.Cut(b, []byte(" "))
	if slices.ContainsFunc(method, func(c byte) bool { return !isToken(c) }) {
		return false
	}
	return !found || !slices.ContainsFunc(rest, func(c byte) bool { return c < ' ' && c != '\r' && c != '\t' })
}

// isRequestLine reports whether b begins with a request line of any version of HTTP,
// such as the preface of HTTP/2 (RFC 9113 section 3.4).
func isRequestLine(b []byte) bool {
	line, _, _ := bytes.Cut(bytes.TrimLeft(b, "\r\n"), []byte("\n"))
	method, rest, found := bytes.Cut(line, []byte(" "))
	if !found || len(method) == 0 || slices.ContainsFunc(method, func(c byte) bool { return !isToken(c) }) {
		return false
	}
	return bytes.Contains(bytes.ToUpper(rest), []byte("HTTP/"))
}

// isToken reports whether c may be in a method (RFC 9110 section 5.6.2).
func isToken(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) >= 0
}

// recorder keeps what is read, for the one who reads it again. It is the connection of a
// TLS server that sends nothing.
type recorder struct {
	net.Conn
	from io.Reader
	read bytes.Buffer
	max  int
}

func (r *recorder) Read(b []byte) (int, error) {
	if r.read.Len() >= r.max {
		return 0, errHello
	}
	n, err := r.from.Read(b)
	r.read.Write(b[:n])
	return n, err
}

func (r *recorder) Write(b []byte) (int, error)      { return len(b), nil }
func (r *recorder) Close() error                     { return nil }
func (r *recorder) SetDeadline(time.Time) error      { return nil }
func (r *recorder) SetReadDeadline(time.Time) error  { return nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }

// serverName reads a TLS handshake's first message and returns its server name (RFC 6066
// section 3), in canonical form. The message is read by the TLS server of the standard
// library, which is given no certificate and ends there.
func serverName(ctx context.Context, c net.Conn) (string, error) {
	var hello *tls.ClientHelloInfo
	server := tls.Server(c, &tls.Config{GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
		hello = info
		return nil, errHello // no more is wanted
	}})
	_ = server.HandshakeContext(ctx)
	switch {
	case hello == nil:
		return "", errHello
	case hello.ServerName == "":
		return "", errNoServerName
	}
	name := canonical(hello.ServerName)
	if slices.Contains(hello.Extensions, extensionECH) {
		return name, errECH
	}
	if !validName(name) {
		return name, errServerName
	}
	return name, nil
}
