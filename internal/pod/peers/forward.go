package peers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// headerClient has the address of the client of a request that is passed on. It is read in
// requests of replicas only.
const headerClient = "Thv-Client-Address"

// writeTimeout is how long a client may take to read what was written to it.
const writeTimeout = 60 * time.Second

// smallBody is the size up to which the body of a request is read before it is sent, and sent
// before the response is read: the buffers of the connection hold it, whatever the other
// replica does.
const smallBody = 32 << 10

// hopByHop are the headers of one connection (RFC 9110 section 7.6.1), and Expect, which this
// replica has met.
var hopByHop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Expect": true,
}

// Forward passes a request on to the replica at address, and its response back. It returns
// false when there is no such replica any more: then nothing was read or written. When ending
// ends, the request does too.
//
// It uses neither [http.Transport], where two more goroutines take part in each request, nor
// [http.Request.Write]: a client waits for all that is done here.
func (n *Network) Forward(ending context.Context, w http.ResponseWriter, r *http.Request, address string) bool {
	if ap, err := netip.ParseAddrPort(address); err != nil || !ap.IsValid() || n.isGone(address) {
		return false
	}
	l, err := n.links.take(r.Context(), address)
	if err != nil && r.Context().Err() == nil {
		n.markGone(address)
		n.log.Info("the replica that had a session is gone", "replica", address, "error", err)
		return false
	}
	if err != nil { // the client has left
		respond(w, http.StatusBadGateway, lost)
		return true
	}
	p := &passage{network: n, link: l, address: address, w: w, control: http.NewResponseController(w), ending: ending}
	left, ended := context.AfterFunc(r.Context(), l.cut), context.AfterFunc(ending, l.cut)
	p.stop = func() bool { return left() && ended() }
	defer p.end()
	p.pass(r)
	return true
}

// passage is one request that is passed on.
type passage struct {
	network *Network
	link    *link
	address string
	w       http.ResponseWriter
	control *http.ResponseController
	body    *body // nil for none
	ending  context.Context
	stop    func() bool // the end of a context cuts the link no longer; false when it did

	sending sync.WaitGroup
	sent    atomic.Bool // all of the request
	whole   bool        // all of the response was received, and the link can be used again
}

// pass sends the request, and the response to the client.
func (p *passage) pass(r *http.Request) {
	if r.ContentLength != 0 && r.Body != nil {
		p.body = &body{from: r.Body, control: p.control}
	}
	switch {
	case p.body == nil:
		p.send(r, nil)
	case r.ContentLength > 0 && r.ContentLength <= smallBody:
		text := make([]byte, r.ContentLength+1) // with room to see its end
		n, err := io.ReadFull(p.body, text)
		if int64(n) != r.ContentLength {
			p.fault(r.Context(), err)
			return
		}
		p.send(r, bytes.NewReader(text[:n]))
	default:
		p.sending.Go(func() { p.send(r, p.body) })
	}
	// Also when not all was sent: the other replica may have refused the rest.
	response, err := p.link.receive(r)
	if err != nil {
		p.fault(r.Context(), err)
		return
	}
	defer response.Body.Close()
	header := p.w.Header()
	endToEnd(response.Header, func(name string, values []string) { header[name] = values })
	if p.body != nil && !p.body.ended.Load() {
		header.Set("Connection", "close") // the rest of it is not read
	}
	p.w.WriteHeader(response.StatusCode)
	if err := p.copy(response); err != nil {
		panic(http.ErrAbortHandler) // half a response must not look like a whole one
	}
	p.whole = !response.Close
}

func (p *passage) send(r *http.Request, body io.Reader) {
	err := p.link.send(r, body)
	p.sent.Store(err == nil)
	if p.body != nil && p.body.failed.Load() {
		p.link.cut() // the other replica waits for the rest
	}
}

// endToEnd calls f for each header that is not of one connection.
func endToEnd(h http.Header, f func(name string, values []string)) {
	named := h["Connection"]
	for name, values := range h {
		if !hopByHop[name] && (named == nil || !isNamed(named, name)) {
			f(name, values)
		}
	}
}

// isNamed reports whether a Connection header names a header.
func isNamed(connection []string, name string) bool {
	for _, value := range connection {
		for token := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(token), name) {
				return true
			}
		}
	}
	return false
}

// copy copies the body of the response. Each part is sent at once: it may be an event.
func (p *passage) copy(response *http.Response) error {
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	if response.ContentLength < 0 && !p.link.waiting() {
		_ = p.control.Flush() // the header of a stream; the first event may be long after
	}
	for {
		n, err := response.Body.Read(buffer[:])
		if n > 0 {
			_ = p.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // the writer of a test has none
			if _, err := p.w.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err == nil || response.ContentLength >= 0 { // the end of a chunked one is still to be written
			_ = p.control.Flush()
		}
		if err != nil {
			return nil
		}
	}
}

// fault responds to a request that has no response.
func (p *passage) fault(ctx context.Context, err error) {
	if p.body != nil && p.body.failed.Load() {
		p.w.Header().Set("Connection", "close")
		respond(p.w, http.StatusBadRequest, unread)
		return
	}
	if ctx.Err() == nil && p.ending.Err() == nil { // otherwise the client has left, or this replica ends
		p.network.log.Warn("a request could not be passed on to the replica that has its session", "replica", p.address, "error", err)
	}
	respond(p.w, http.StatusBadGateway, lost)
}

// end gives the link back, or closes it.
func (p *passage) end() {
	whole := p.whole && p.sent.Load()
	if !whole {
		p.link.cut()
		if p.body != nil && !p.body.ended.Load() {
			_ = p.control.SetReadDeadline(past) // what is sent may wait for the client
		}
	}
	p.sending.Wait()
	if p.stop() && whole {
		p.network.links.give(p.address, p.link)
	} else {
		p.link.close()
	}
}

// The responses when the replica, or the client, ends during a request.
var (
	lost   = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"the replica of the gateway that has this session ended during the request; send it again"}}`)
	unread = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the body could not be read to its end"}}`)
)

func respond(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// body is the body of a request that is passed on. It is not closed: net/http does that. At
// its end the deadline for it is removed, since the response may take longer.
type body struct {
	from          io.Reader
	control       *http.ResponseController
	ended, failed atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		_ = b.control.SetReadDeadline(time.Time{})
		b.ended.Store(true)
	case err != nil:
		b.failed.Store(true)
	}
	return n, err
}

func (b *body) Close() error { return nil }

// Handler serves requests that replicas pass on, with the address of their client.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if client := r.Header.Get(headerClient); client != "" {
			r.RemoteAddr = client
			r.Header.Del(headerClient)
		}
		next.ServeHTTP(w, r)
	})
}

// bufferSize is the size of a buffer for a part of a response.
const bufferSize = 32 << 10

// buffers are used again.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}
