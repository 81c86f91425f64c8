package peers

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

const (
	// dialTimeout bounds the connection to another pod of the cluster. The address of a
	// pod that is gone may not even refuse it.
	dialTimeout = 2 * time.Second
	// idleTime is how long a link that no request uses is kept. It is less than the replicas'
	// own limit for that ([serve.HTTP]): this side closes first.
	idleTime = 90 * time.Second
	// maxIdle bounds the links to one replica that no request uses.
	maxIdle = 64
)

// past is a deadline that ends what waits.
var past = time.Unix(1, 0)

// link is a connection to another replica. It carries one request at a time.
type link struct {
	conn   *tls.Conn
	raw    net.Conn
	reader *bufio.Reader
	writer *bufio.Writer
	room   int64 // for the header of a response
	expiry *time.Timer
}

// Read reads what arrives, within room.
func (l *link) Read(p []byte) (int, error) {
	if l.room <= 0 {
		return 0, errHeader
	}
	n, err := l.conn.Read(p[:min(int64(len(p)), l.room)])
	l.room -= int64(n)
	return n, err
}

var errHeader = fmt.Errorf("the header of the response is larger than %d bytes", mcp.MaxHeader)

// unbounded is the room for a body, which goes straight to the client.
const unbounded = 1<<63 - 1

// send sends a request with a body, nil for none. What is written of r was read by net/http,
// which refuses what has no place in a line (RFC 9112 section 2.2).
func (l *link) send(r *http.Request, body io.Reader) error {
	w := l.writer
	line := func(parts ...string) {
		for _, part := range parts {
			_, _ = w.WriteString(part) // Flush returns the error
		}
		_, _ = w.WriteString("\r\n")
	}
	line(r.Method, " ", r.URL.RequestURI(), " HTTP/1.1")
	line("Host: ", r.Host)
	line(headerClient, ": ", r.RemoteAddr)
	endToEnd(r.Header, func(name string, values []string) {
		if name == headerClient || name == "Content-Length" {
			return
		}
		for _, value := range values {
			line(name, ": ", value)
		}
	})
	var err error
	switch {
	case body == nil:
		if r.Method == http.MethodPost {
			line("Content-Length: 0")
		}
		line()
	case r.ContentLength > 0:
		line("Content-Length: ", strconv.FormatInt(r.ContentLength, 10))
		line()
		if r.ContentLength > smallBody {
			_ = w.Flush() // the rest may be long in coming
		}
		_, err = io.CopyN(w, body, r.ContentLength)
	default:
		line("Transfer-Encoding: chunked")
		line()
		_ = w.Flush()
		chunks := httputil.NewChunkedWriter(w)
		if _, err = io.Copy(chunks, body); err == nil {
			err = chunks.Close()
			line()
		}
	}
	return errors.Join(err, w.Flush())
}

// receive reads the header of the response.
func (l *link) receive(r *http.Request) (*http.Response, error) {
	l.room = mcp.MaxHeader
	response, err := http.ReadResponse(l.reader, r)
	l.room = unbounded
	if err != nil {
		return nil, err
	}
	if response.StatusCode < http.StatusOK {
		// Replicas send none, and what follows would not be HTTP after 101.
		return nil, fmt.Errorf("the status %d is not that of a response", response.StatusCode)
	}
	return response, nil
}

// waiting reports whether something was received that was not read.
func (l *link) waiting() bool { return l.reader.Buffered() > 0 }

// cut ends what waits for the other replica.
func (l *link) cut() { _ = l.raw.SetDeadline(past) }

func (l *link) close() { _ = l.raw.Close() }

// dial connects to a replica, and checks that it is one.
func dial(ctx context.Context, address string, config *tls.Config) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	l := &link{conn: conn, raw: raw}
	l.reader, l.writer = bufio.NewReader(l), bufio.NewWriter(conn)
	return l, nil
}

// links are the connections of a Network that no request uses.
type links struct {
	tls *tls.Config

	mu     sync.Mutex
	idle   map[string][]*link // by address; the one used last is the last
	closed bool
}

// take returns a link to the replica at address, and connects if there is none.
func (s *links) take(ctx context.Context, address string) (*link, error) {
	for l := s.last(address); l != nil; l = s.last(address) {
		if l.expiry.Stop() && alive(l.raw) {
			return l, nil
		}
		l.close()
	}
	return dial(ctx, address, s.tls)
}

func (s *links) last(address string) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := s.idle[address]
	if len(idle) == 0 {
		return nil
	}
	l := idle[len(idle)-1]
	s.keep(address, idle[:len(idle)-1])
	return l
}

// keep sets the idle links to a replica.
func (s *links) keep(address string, idle []*link) {
	if len(idle) == 0 {
		delete(s.idle, address)
		return
	}
	s.idle[address] = idle
}

// give keeps a link for the next request.
func (s *links) give(address string, l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || l.waiting() || len(s.idle[address]) >= maxIdle {
		l.close()
		return
	}
	s.idle[address] = append(s.idle[address], l)
	if l.expiry == nil {
		l.expiry = time.AfterFunc(idleTime, func() { s.drop(address, l) })
	} else {
		l.expiry.Reset(idleTime)
	}
}

// drop closes a link that no request has used for long.
func (s *links) drop(address string, l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.idle[address], l); i >= 0 {
		s.keep(address, slices.Delete(s.idle[address], i, i+1))
		l.close()
	}
}

// close closes all, and those that are given back later.
func (s *links) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, idle := range s.idle {
		for _, l := range idle {
			l.expiry.Stop()
			l.close()
		}
	}
	clear(s.idle)
}
