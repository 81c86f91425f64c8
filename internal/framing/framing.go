// Package framing closes connections on which the length of a request was ambiguous.
//
// A request with both Content-Length and Transfer-Encoding may be an attempt of request
// smuggling: a proxy in front of the server may have read another length. net/http follows
// Transfer-Encoding and drops Content-Length before a handler sees it, but keeps the
// connection. RFC 9112 section 6.1: the server must close it after the response.
package framing

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// Guard prepares s, which has its handler, and returns the listener to serve on. The
// connection is closed after a request with Transfer-Encoding when a Content-Length was
// sent on the same connection, by this request or another.
func Guard(s *http.Server, l net.Listener) net.Listener {
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			if c, ok := r.Context().Value(connKey{}).(*conn); ok && c.length.Load() {
				w.Header().Set("Connection", "close")
			}
		}
		next.ServeHTTP(w, r)
	})
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	return listener{l}
}

type connKey struct{}

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// conn looks for a Content-Length header in the bytes that are read. It may find the text
// in a body too, which closes a connection that could have been kept.
type conn struct {
	net.Conn
	length  atomic.Bool // found
	matched int         // bytes of lengthHeader at the end of what was read; used by Read only
}

const lengthHeader = "\ncontent-length"

// CloseWrite is for net/http, which lets a client read the last response before the
// connection is closed.
func (c *conn) CloseWrite() error {
	if tcp, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return tcp.CloseWrite()
	}
	return nil
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.length.Load() {
		c.scan(p[:n])
	}
	return n, err
}

func (c *conn) scan(b []byte) {
	for len(b) > 0 {
		if c.matched == 0 {
			i := bytes.IndexByte(b, '\n')
			if i < 0 {
				return
			}
			c.matched, b = 1, b[i+1:]
			continue
		}
		letter := b[0]
		if 'A' <= letter && letter <= 'Z' {
			letter += 'a' - 'A'
		}
		switch letter {
		case lengthHeader[c.matched]:
			c.matched++
		case '\n':
			c.matched = 1
		default:
			c.matched = 0
		}
		if c.matched == len(lengthHeader) {
			c.length.Store(true)
			return
		}
		b = b[1:]
	}
}
