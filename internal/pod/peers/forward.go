package peers

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"sync"
	"time"
)

// headerClient has the address of the client of a request that is passed on. It is read in
// requests of replicas only.
const headerClient = "Thv-Client-Address"

// writeTimeout is how long a client may take to read what was written to it.
const writeTimeout = 60 * time.Second

// forwarded are the headers that a proxy before the gateway sets. httputil drops them.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// Forward passes a request on to the replica at address, and its response back. It returns
// false when there is no such replica any more: then nothing was read or written.
func (n *Network) Forward(w http.ResponseWriter, r *http.Request, address string) bool {
	if ap, err := netip.ParseAddrPort(address); err != nil || !ap.IsValid() || n.isGone(address) {
		return false
	}
	control := http.NewResponseController(w)
	sent := r.WithContext(r.Context()) // a copy
	body := &body{from: r.Body, control: control}
	if r.ContentLength != 0 {
		sent.Body = body
	}
	gone := false
	proxy := httputil.ReverseProxy{
		Transport:     n.transport,
		FlushInterval: -1,
		BufferPool:    &n.buffers,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "https", address
			p.Out.Host = p.In.Host
			for _, name := range forwarded {
				if values := p.In.Header.Values(name); len(values) > 0 {
					p.Out.Header[name] = values
				}
			}
			p.Out.Header.Set(headerClient, p.In.RemoteAddr)
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if _, ok := errors.AsType[dialError](err); ok && !body.read && r.Context().Err() == nil {
				gone = true
				return
			}
			if r.Context().Err() == nil {
				n.log.Warn("a request could not be passed on to the replica that has its session", "replica", address, "error", err)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write(lost)
		},
		ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
	}
	proxy.ServeHTTP(&patient{ResponseWriter: w, control: control}, sent)
	if gone {
		n.markGone(address)
		n.log.Info("the replica that had a session is gone", "replica", address)
	}
	return !gone
}

// lost is the response when the replica ends during a request.
var lost = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"the replica of the gateway that has this session ended during the request; send it again"}}`)

// body is the body of a request that is passed on. It is not closed: the request may be served
// here instead. At its end the deadline for it is removed, since the response may take longer.
type body struct {
	from    io.Reader
	control *http.ResponseController
	read    bool
}

func (b *body) Read(p []byte) (int, error) {
	b.read = true
	n, err := b.from.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

func (b *body) Close() error { return nil }

// patient gives the client time to read each part of a response: a stream has no end.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (p *patient) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // the writer of a test has none
	return p.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

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

// buffers is a pool for copies of responses.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

// Get implements [httputil.BufferPool].
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, bufferSize)
}

// Put implements [httputil.BufferPool].
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
