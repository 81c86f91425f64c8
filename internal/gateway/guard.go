package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// guard admits only requests that were meant for us, on every path.
//
// The Host header must be a loopback name (localhost, 127.0.0.0/8, ::1), the
// address that the connection came in on, or an allowed host. A web page that
// rebinds its own name to our address has its own name there (DNS rebinding).
// Any port will do for the first two: a forwarded port is another one, and no
// page gains anything by it.
//
// The Origin, when there is one, must have such a host too (MCP 2025-11-25,
// basic/transports, Security Warning), with any port, so that a page served
// from this machine (the MCP Inspector on localhost:6274) works. Whoever can
// serve a page on this machine's loopback already runs code on it.
type guard struct {
	hosts          map[string]bool // lower case; "host" or "host:port"
	trustForwarded bool
}

// newGuard makes a guard. allowed was validated (endpoint.Config).
func newGuard(allowed []string) *guard {
	g := &guard{hosts: map[string]bool{}}
	for _, h := range allowed {
		name, port, _ := endpoint.SplitHost(h)
		if port != "" {
			name += ":" + port
		}
		g.hosts[name] = true
	}
	return g
}

func (g *guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if !g.ours(r.Host, local) {
			refuse(w, http.StatusForbidden, "forbidden_host", "this address is not served under the name in the Host header; allow the name with --allowed-hosts if it is yours")
			return
		}
		if !g.fromUs(w, r, local) {
			return
		}
		next.ServeHTTP(w, r)
	})
}

// fromUs checks the Origin and, for a good one, adds what a browser needs to
// let its page read the answer (Fetch standard, 3.3 CORS protocol).
func (g *guard) fromUs(w http.ResponseWriter, r *http.Request, local net.Addr) bool {
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		// A browser leaves the Origin out of some requests that a page makes it
		// send (an image's address); it still says where they come from.
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
			refuse(w, http.StatusForbidden, "forbidden_origin", "requests from web pages of other sites are not served")
			return false
		}
		return true
	}
	u, err := url.Parse(origins[0])
	if len(origins) > 1 || err != nil || (u.Scheme != "http" && u.Scheme != "https") || !g.ours(u.Host, local) && !g.sameAsForwarded(r, u.Host) {
		refuse(w, http.StatusForbidden, "forbidden_origin", "requests from web pages of this origin are not served; allow its host with --allowed-hosts if it is yours")
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origins[0])
	h.Set("Access-Control-Expose-Headers", mcp.HeaderSessionID)
	h.Add("Vary", "Origin")
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		h.Set("Access-Control-Allow-Headers", strings.Join(append([]string{
			"Accept", "Authorization", "Content-Type", mcp.HeaderSessionID, mcp.HeaderVersion,
			mcp.HeaderLastEventID, mcp.HeaderMethod, mcp.HeaderName,
		}, mirroredNames(r)...), ", "))
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
		return false
	}
	return true
}

// mirroredNames are the Mcp-Param-* headers that a page wants to send. A tool's
// schema names them, so there is no list of them.
func mirroredNames(r *http.Request) (names []string) {
	for _, value := range r.Header["Access-Control-Request-Headers"] {
		for name := range strings.SplitSeq(value, ",") {
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); strings.HasPrefix(name, mcp.HeaderParamPrefix) {
				names = append(names, name)
			}
		}
	}
	return names
}

// ours reports whether hostport names this gateway.
func (g *guard) ours(hostport string, local net.Addr) bool {
	name, port, ok := endpoint.SplitHost(hostport)
	if !ok {
		return false
	}
	if name == "localhost" || name == "127.0.0.1" || g.hosts[name] || (port != "" && g.hosts[name+":"+port]) {
		return true
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	if ip.Unmap().IsLoopback() {
		return true
	}
	tcp, ok := local.(*net.TCPAddr)
	// The zone of a link-local address means something on this machine only.
	return ok && tcp.AddrPort().Addr().Unmap().WithZone("") == ip.Unmap()
}
