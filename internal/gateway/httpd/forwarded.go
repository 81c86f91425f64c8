package httpd

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/toolhaven/toolhaven/internal/endpoint"
)

// Headers with which a reverse proxy describes the request that it received. Any client
// can send them, so they count only when the configuration states that all requests pass
// such a proxy.
const (
	headerForwardedProto  = "X-Forwarded-Proto"
	headerForwardedHost   = "X-Forwarded-Host"
	headerForwardedPort   = "X-Forwarded-Port"
	headerForwardedPrefix = "X-Forwarded-Prefix"
	headerForwardedFor    = "X-Forwarded-For"
)

// maxPrefix bounds a path in a header, in bytes.
const maxPrefix = 512

// Prefix is the path below which the client of r sees the gateway: the configured one, or
// the one that a trusted proxy removed.
func (c *Core) Prefix(r *http.Request) string {
	return Prefix(r, c.Endpoint.Prefix, c.TrustProxyHeaders)
}

// Prefix is [Core.Prefix] for the configured prefix; trust is set when the headers come from
// a trusted proxy.
func Prefix(r *http.Request, configured string, trust bool) string {
	if configured != "" || !trust {
		return configured
	}
	prefix := strings.TrimRight(r.Header.Get(headerForwardedPrefix), "/")
	if prefix == "" || len(prefix) > maxPrefix || !endpoint.ValidPrefix(prefix) {
		return ""
	}
	return prefix
}

// isForwardedHost reports whether the client requested host from a trusted proxy: a page
// of that host is of the gateway's own origin.
func (g *Guard) isForwardedHost(r *http.Request, host string) bool {
	values := r.Header[headerForwardedHost]
	return g.trustForwarded && len(values) == 1 && host != "" && strings.EqualFold(values[0], host)
}

// Origin is the scheme and host, with a port unless it is the scheme's own, at which the
// client of r reaches the gateway: the Host header, or what a trusted proxy states. The
// gateway itself serves plain HTTP. [Guard] has admitted the Host header.
func Origin(r *http.Request, trust bool) string {
	scheme, host := "http", r.Host
	if !trust {
		return scheme + "://" + host
	}
	if proto := single(r, headerForwardedProto); proto == "http" || proto == "https" {
		scheme = proto
	}
	forwarded := single(r, headerForwardedHost)
	_, port, ok := endpoint.SplitHost(forwarded)
	if !ok {
		return scheme + "://" + host
	}
	if port == "" {
		port = single(r, headerForwardedPort)
		if withPort := forwarded + ":" + port; port != defaultPort(scheme) {
			if _, _, ok := endpoint.SplitHost(withPort); ok {
				forwarded = withPort
			}
		}
	}
	return scheme + "://" + forwarded
}

// single is the value of a header that occurs once; "" otherwise.
func single(r *http.Request, header string) string {
	if values := r.Header[header]; len(values) == 1 {
		return values[0]
	}
	return ""
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// ClientAddress is the IP address of the sender of r, to bound what one sender may do: the
// connection's, or with trust the one that the proxy states.
func ClientAddress(r *http.Request, trust bool) string {
	if client := forwardedFor(r, trust); client != "" {
		return client
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// forwardedFor is the IP address that a trusted proxy received r from; "" if none is stated. A
// proxy appends it to X-Forwarded-For; what stands before it is the sender's own text.
func forwardedFor(r *http.Request, trust bool) string {
	lines := r.Header[headerForwardedFor]
	if !trust || len(lines) == 0 {
		return ""
	}
	last := lines[len(lines)-1]
	last = strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
	ip, err := netip.ParseAddr(last)
	if err != nil {
		at, err := netip.ParseAddrPort(last) // as some proxies append it
		if err != nil {
			return ""
		}
		ip = at.Addr()
	}
	return ip.Unmap().WithZone("").String()
}
