package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxHeader     = 64 << 10
	headerTimeout = 30 * time.Second
	idleTimeout   = 2 * time.Minute
)

// serveHTTP serves a connection with plain HTTP to an address. Every request on it is
// checked: the next one may name another host.
func (g *Gateway) serveHTTP(ctx context.Context, record Record, inside, outside net.Conn, names map[string]bool) {
	to := netip.AddrPortFrom(record.Address, uint16(record.Port))
	var first atomic.Pointer[net.Conn]
	first.Store(&outside)
	transport := newTransport(func(ctx context.Context, _ string) (net.Conn, error) {
		if c := first.Swap(nil); c != nil {
			return *c, nil
		}
		return g.dial(ctx, to)
	})
	defer transport.CloseIdleConnections()
	proxy := g.reverseProxy(transport, to.String())
	record.Kind = KindHTTP
	end := g.log.open(record)
	counted := &countedConn{Conn: inside}
	defer func() { end(counted.sent.Load(), counted.received.Load(), "") }()
	g.serve(ctx, counted, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, err := hostOf(r.Host, 80)
		if err == nil && !names[name] {
			err = errHost
		}
		if r.Method == http.MethodConnect || r.ProtoMajor != 1 {
			err = errProtocol
		}
		if err != nil {
			g.forbid(w, Record{Kind: KindHTTP, Name: shown(name), Address: to.Addr(), Port: int(to.Port())}, err)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
}

// Proxy serves a connection of a program that uses an HTTP proxy: CONNECT (RFC 9110
// section 9.3.6), and plain requests with an absolute URL (RFC 9112 section 3.2.2).
func (g *Gateway) Proxy(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	transport := newTransport(func(ctx context.Context, address string) (net.Conn, error) {
		name, port, err := hostOf(address, 0)
		if err != nil {
			return nil, err
		}
		c, _, err := g.dialName(ctx, name, port)
		if err != nil {
			return nil, err
		}
		record := Record{Kind: KindHTTP, Name: name, Port: port, Address: remoteAddr(c)}
		end := g.log.open(record)
		out := &countedConn{Conn: c}
		out.closed = sync.OnceFunc(func() { end(out.received.Load(), out.sent.Load(), "") })
		return out, nil
	})
	defer transport.CloseIdleConnections()
	proxy := g.reverseProxy(transport, "")
	g.serve(ctx, conn, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			g.connect(ctx, w, r)
			return
		}
		if r.URL.Scheme != "http" || r.URL.Host == "" {
			http.Error(w, "this is a proxy for HTTP and CONNECT", http.StatusBadRequest)
			return
		}
		name, port, err := hostOf(r.URL.Host, 80)
		if err == nil {
			_, err = g.addresses(ctx, name, port)
		}
		if err != nil {
			g.forbid(w, Record{Kind: KindHTTP, Name: shown(name), Port: port}, err)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
}

// connect serves CONNECT. What follows is inspected as a connection to an address is.
func (g *Gateway) connect(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	name, port, err := hostOf(r.Host, 0)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	record := Record{Kind: KindTCP, Name: shown(name), Port: port}
	out, listed, err := g.dialName(ctx, name, port)
	if err != nil {
		g.forbid(w, record, err)
		return
	}
	defer out.Close()
	record.Address = remoteAddr(out)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Time{})
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { conn.Close(); out.Close() })
	defer stop()
	inside := conn
	if n := buffered.Reader.Buffered(); n > 0 {
		early, _ := buffered.Reader.Peek(n)
		inside = &firstRead{Conn: conn, first: append([]byte(nil), early...)}
	}
	if listed {
		g.carry(record, inside, out)
		return
	}
	g.inspect(ctx, record, inside, out, map[string]bool{name: true})
}

// remoteAddr is the address that a connection was made to.
func remoteAddr(c net.Conn) netip.Addr {
	to, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return to.Addr().Unmap()
}

// hostOf reads host and port of a request (RFC 9110 section 4.2). Without a port it is
// the default, and an error if that is 0.
func hostOf(text string, port int) (string, int, error) {
	host := text
	if h, p, err := net.SplitHostPort(text); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return "", 0, errors.New("the request has no valid port")
		}
		host, port = h, int(n)
	}
	host = canonical(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	if port == 0 {
		return host, 0, errors.New("the request has no port")
	}
	if _, err := netip.ParseAddr(host); err != nil && !validName(host) {
		return host, port, errName
	}
	return host, port, nil
}

// addresses are the addresses of a host, a name or an address, that may be dialed.
func (g *Gateway) addresses(ctx context.Context, host string, port int) (found []netip.Addr, err error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap().WithZone("")
		if _, err := g.rules.target(netip.AddrPortFrom(addr, uint16(port)), false); err != nil {
			return nil, err
		}
		return []netip.Addr{addr}, nil
	}
	if !g.rules.name(host) {
		return nil, errName
	}
	all, err := g.lookup(ctx, host)
	if err != nil {
		return nil, errNotFound
	}
	usable, closed := g.usable(all)
	for _, addr := range usable {
		if _, err := g.rules.target(netip.AddrPortFrom(addr, uint16(port)), true); err != nil {
			closed = err
			continue
		}
		found = append(found, addr)
	}
	if len(found) == 0 {
		if closed == nil {
			closed = errNotFound
		}
		return nil, closed
	}
	return found, nil
}

var errNotFound = errors.New("the name was not found")

// dialName connects to the first address of a host that can be reached.
func (g *Gateway) dialName(ctx context.Context, host string, port int) (net.Conn, bool, error) {
	found, err := g.addresses(ctx, host, port)
	if err != nil {
		return nil, false, err
	}
	for _, addr := range found {
		var conn net.Conn
		to := netip.AddrPortFrom(addr, uint16(port))
		if conn, err = g.dial(ctx, to); err == nil {
			listed, _ := g.rules.target(to, true)
			return conn, listed, nil
		}
	}
	return nil, false, errors.New(dialReason(err))
}

// forbid answers a request that is refused, and records it.
func (g *Gateway) forbid(w http.ResponseWriter, record Record, reason error) {
	g.log.refuse(record, reason)
	w.Header().Set("Connection", "close")
	http.Error(w, fmt.Sprintf("refused by the network isolation of this container: %s", reason), http.StatusForbidden)
}

func newTransport(dial func(ctx context.Context, address string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		Proxy: nil,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return dial(ctx, address)
		},
		DisableCompression:     true,
		IdleConnTimeout:        idleTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxHeader,
	}
}

// reverseProxy forwards requests, to the address unless that is "".
func (g *Gateway) reverseProxy(transport http.RoundTripper, address string) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			host := address
			if host == "" {
				host = r.In.URL.Host
			}
			r.Out.URL = &url.URL{Scheme: "http", Host: host, Path: r.In.URL.Path, RawPath: r.In.URL.RawPath, RawQuery: r.In.URL.RawQuery, ForceQuery: r.In.URL.ForceQuery}
			r.Out.Host = r.In.Host
		},
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			http.Error(w, "the server cannot be reached", http.StatusBadGateway)
		},
	}
}

// serve serves HTTP on one connection until it ends.
func (g *Gateway) serve(ctx context.Context, conn net.Conn, handler http.Handler) {
	one := &oneListener{done: make(chan struct{})}
	one.conn = &closedConn{Conn: conn, closed: one.end}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(io.Discard, "", 0), BaseContext: func(net.Listener) context.Context { return ctx },
		DisableGeneralOptionsHandler: true,
	}
	stop := context.AfterFunc(ctx, one.end)
	defer stop()
	_ = server.Serve(one)
	_ = server.Close()
}

// closedConn calls closed when it is closed.
type closedConn struct {
	net.Conn
	closed func()
}

// CloseWrite ends one direction.
func (c *closedConn) CloseWrite() error {
	closeWrite(c.Conn)
	return nil
}

func (c *closedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// countedConn counts the bytes that are read from it and written to it.
type countedConn struct {
	net.Conn
	sent, received atomic.Int64 // read, written
	closed         func()       // nil for none
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.sent.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.received.Add(int64(n))
	return n, err
}

// CloseWrite ends one direction.
func (c *countedConn) CloseWrite() error {
	closeWrite(c.Conn)
	return nil
}

func (c *countedConn) Close() error {
	if c.closed != nil {
		defer c.closed()
	}
	return c.Conn.Close()
}

// oneListener accepts one connection, and then waits until it is closed.
type oneListener struct {
	conn net.Conn
	took atomic.Bool
	once sync.Once
	done chan struct{}
}

func (l *oneListener) Accept() (net.Conn, error) {
	if !l.took.Swap(true) {
		return l.conn, nil
	}
	<-l.done
	return nil, io.EOF
}

func (l *oneListener) end()           { l.once.Do(func() { close(l.done) }) }
func (l *oneListener) Close() error   { return nil }
func (l *oneListener) Addr() net.Addr { return l.conn.LocalAddr() }
