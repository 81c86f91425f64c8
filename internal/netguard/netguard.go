// Package netguard makes outbound HTTP requests safe: it checks the address that is
// connected to, not the name, so that neither a DNS response nor a redirect can lead a
// request into the private network. It also reads the secrets that such requests send.
//
// A guarded transport ignores HTTP proxy settings: a proxy resolves and connects
// without these checks.
package netguard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// Options are what a client is permitted. The zero value is the strictest: HTTPS to
// public addresses, no redirects.
type Options struct {
	// CAFiles are PEM files of authorities trusted in addition to the system's.
	CAFiles []string
	// AllowPrivate permits private and other special addresses.
	AllowPrivate bool
	// AllowLoopback permits this machine's own addresses, and plain HTTP there.
	AllowLoopback bool
	// AllowHTTP permits plain HTTP everywhere.
	AllowHTTP bool
	// ClientCertFile and ClientKeyFile are PEM files of a certificate that is presented to
	// servers that request one; "" is none.
	ClientCertFile, ClientKeyFile string
	// InsecureSkipVerify accepts any certificate of a server.
	InsecureSkipVerify bool
	// HTTP2 speaks nothing but HTTP/2, with prior knowledge where there is no TLS (RFC 9113
	// section 3.3).
	HTTP2 bool
	// Redirects is how many redirects are followed, to the same host only.
	Redirects int
	// Resolver looks names up; nil is the system's.
	Resolver *net.Resolver
	// Timeout bounds a whole request; 0 is DefaultTimeout. A Transport has no such
	// bound, because streams are long-lived.
	Timeout time.Duration
}

// DefaultTimeout bounds a request with its response.
const DefaultTimeout = 10 * time.Second

// ErrForbidden: the address must not be connected to.
var ErrForbidden = errors.New("the address is not a public one")

// ErrTooLarge: a response or file exceeds its bound.
var ErrTooLarge = errors.New("it is too large")

// Client returns a guarded client.
func Client(opt Options) (*http.Client, error) {
	transport, err := Transport(opt)
	if err != nil {
		return nil, err
	}
	timeout := opt.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	return &http.Client{
		Transport: transport,
		Timeout:   timeout,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > opt.Redirects {
				return http.ErrUseLastResponse
			}
			if first := via[0].URL; req.URL.Host != first.Host || req.URL.Scheme != first.Scheme {
				return fmt.Errorf("a redirect to another host (%s) is not followed", req.URL.Host)
			}
			return nil
		},
	}, nil
}

// Transport returns a guarded transport, for long-lived streams. It reads the files of opt
// again when they change.
func Transport(opt Options) (http.RoundTripper, error) {
	f := &following{opt: opt}
	// Before they are read: a change in between is detected later.
	f.seen, f.checked = f.stat(), time.Now()
	var err error
	if f.current, err = newTransport(opt); err != nil {
		return nil, err
	}
	return &schemes{opt: opt, next: f}, nil
}

func newTransport(opt Options) (*http.Transport, error) {
	pool, err := roots(opt.CAFiles)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12, InsecureSkipVerify: opt.InsecureSkipVerify}
	if opt.ClientCertFile != "" {
		certificate, err := tls.LoadX509KeyPair(opt.ClientCertFile, opt.ClientKeyFile)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	var protocols *http.Protocols // nil is HTTP/1.1, and HTTP/2 where TLS negotiates it
	if opt.HTTP2 {
		protocols = &http.Protocols{}
		protocols.SetHTTP2(true)
		protocols.SetUnencryptedHTTP2(true)
	}
	return &http.Transport{
		Protocols:              protocols,
		Proxy:                  nil,
		DialContext:            Dialer(opt).DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        90 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: 64 << 10,
	}, nil
}

// Dialer returns a guarded dialer, for protocols other than HTTP.
func Dialer(opt Options) *net.Dialer {
	return &net.Dialer{
		Timeout:   10 * time.Second,
		KeepAlive: 30 * time.Second,
		Resolver:  opt.Resolver,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			return opt.check(address)
		},
	}
}

// schemes rejects URLs that are not HTTPS before a name is resolved, and responses that
// switch the protocol.
type schemes struct {
	opt  Options
	next *following
}

func (s *schemes) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Scheme == "https", r.URL.Scheme == "http" && s.opt.AllowHTTP,
		r.URL.Scheme == "http" && s.opt.AllowLoopback && isLoopbackName(r.URL.Hostname()):
		resp, err := s.next.transport().RoundTrip(r)
		if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
			// Its body would be the connection, without timeout and cancellation.
			resp.Body.Close()
			return nil, errors.New("the server switches to another protocol, which was not requested")
		}
		return resp, err
	}
	if r.Body != nil {
		r.Body.Close() // as the contract of RoundTripper requires
	}
	return nil, fmt.Errorf("%s://%s: only HTTPS is allowed", r.URL.Scheme, r.URL.Host)
}

// CloseIdleConnections is called by http.Client.
func (s *schemes) CloseIdleConnections() { s.next.transport().CloseIdleConnections() }

func isLoopbackName(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

func roots(files []string) (*x509.CertPool, error) {
	if len(files) == 0 {
		return nil, nil // the system's
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	for _, file := range files {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("CA certificate: %w", err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CA certificate: %s holds no PEM certificate", file)
		}
	}
	return pool, nil
}

// check permits or forbids the address of a new connection.
func (o Options) check(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("connect to %q: %w", address, ErrForbidden)
	}
	addr := embedded(ap.Addr().Unmap().WithZone(""))
	switch {
	case addr.IsLoopback():
		if o.AllowLoopback {
			return nil
		}
	case o.AllowPrivate || isPublic(addr):
		return nil
	}
	return fmt.Errorf("connect to %s: %w", ap.Addr(), ErrForbidden)
}

// special are the blocks that are not public (IANA special-purpose address registries,
// RFC 6890 and updates).
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
	"172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
	"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"::/128", "::1/128", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32",
	"3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
)

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		out[i] = netip.MustParsePrefix(t)
	}
	return out
}

// Public reports whether an address is neither private nor otherwise special, also as far
// as it embeds an IPv4 address.
func Public(addr netip.Addr) bool {
	addr = embedded(addr.Unmap().WithZone(""))
	return !addr.IsLoopback() && isPublic(addr)
}

func isPublic(addr netip.Addr) bool {
	if !addr.IsValid() {
		return false
	}
	for _, p := range special {
		if p.Contains(addr) {
			return false
		}
	}
	return true
}

var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixToFour = netip.MustParsePrefix("2002::/16")    // RFC 3056
	v4compat  = netip.MustParsePrefix("::/96")        // RFC 4291 section 2.5.5.1
)

// embedded is the IPv4 address that an IPv6 address embeds, or the address itself.
func embedded(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	b := addr.As16()
	switch {
	case nat64.Contains(addr), v4compat.Contains(addr) && addr != netip.IPv6Loopback() && addr != netip.IPv6Unspecified():
		return netip.AddrFrom4([4]byte(b[12:16]))
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return addr
}

// Late reports whether err, of a request or of reading its response, is a timeout. The
// text of net/http depends on which timer fires first.
func Late(err error) bool {
	var timed interface{ Timeout() bool }
	return errors.As(err, &timed) && timed.Timeout()
}

// ReadBounded reads r to its end. It fails with ErrTooLarge after max bytes.
func ReadBounded(r io.Reader, max int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > max {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, max)
	}
	return b, nil
}
