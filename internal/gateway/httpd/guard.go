package httpd

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Guard admits only requests that are addressed to the gateway, on every path.
//
// The Host header must be a loopback name (localhost, 127.0.0.0/8, ::1), the local
// address of the connection, or an allowed host. A web page that rebinds its name to the
// gateway's address sends its own name (DNS rebinding). For the first two any port is
// accepted: a forwarded port differs, and a page gains nothing by it.
//
// The Origin, if there is one, must have such a host too (MCP 2025-11-25,
// basic/transports, Security Warning), with any port, so that a page from this machine
// (the MCP Inspector on localhost:6274) works. A program that can serve a page on the
// loopback interface already runs on this machine.
type Guard struct {
	hosts          map[string]bool // lower case; "host" or "host:port"
	trustForwarded bool
	// Navigable reports whether a page of any site may lead a browser to a path: the pages of
	// a login, to which an identity provider redirects. nil is none.
	Navigable func(path string) bool
}

// NewGuard makes a guard. allowed was validated ([endpoint.Config]). trustForwarded is set
// when X-Forwarded-Host comes from a trusted proxy.
func NewGuard(allowed []string, trustForwarded bool) *Guard {
	g := &Guard{hosts: map[string]bool{}, trustForwarded: trustForwarded}
	for _, h := range allowed {
		name, port, _ := endpoint.SplitHost(h)
		if port != "" {
			name += ":" + port
		}
		g.hosts[name] = true
	}
	return g
}

// Wrap is the stage.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if !g.ours(r.Host, local) {
			Refuse(w, http.StatusForbidden, "forbidden_host", "the name in the Host header is not one of this address; allow the name with --allowed-hosts if it is yours")
			return
		}
		if !g.admitOrigin(w, r, local) {
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admitOrigin checks the Origin. For an admitted one it adds the headers with which a
// browser lets its page read the response (Fetch standard, 3.3 CORS protocol). After false
// it has written a response.
func (g *Guard) admitOrigin(w http.ResponseWriter, r *http.Request, local net.Addr) bool {
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		// Browsers omit the Origin in some requests of a page (the source of an
		// image) but send Sec-Fetch-Site.
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" && !g.navigation(r) {
			Refuse(w, http.StatusForbidden, "forbidden_origin", "requests from web pages of other sites are not served")
			return false
		}
		return true
	}
	u, err := url.Parse(origins[0])
	if len(origins) > 1 || err != nil || (u.Scheme != "http" && u.Scheme != "https") || !g.ours(u.Host, local) && !g.isForwardedHost(r, u.Host) {
		Refuse(w, http.StatusForbidden, "forbidden_origin", "requests from web pages of this origin are not served; allow its host with --allowed-hosts if it is yours")
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origins[0])
	h.Set("Access-Control-Expose-Headers", mcp.HeaderSessionID+", WWW-Authenticate")
	h.Add("Vary", "Origin")
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		h.Set("Access-Control-Allow-Headers", strings.Join(append([]string{
			"Accept", "Authorization", "Content-Type", mcp.HeaderSessionID, mcp.HeaderVersion,
			mcp.HeaderLastEventID, mcp.HeaderMethod, mcp.HeaderName,
		}, paramHeaders(r)...), ", "))
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
		return false
	}
	return true
}

// navigation reports whether a browser opens a navigable path as a page of its own, not in a
// frame or from a script (Fetch Metadata, sections 2.1 and 2.2). The page that led there
// cannot read the response.
func (g *Guard) navigation(r *http.Request) bool {
	return g.Navigable != nil && g.Navigable(r.URL.Path) && r.Method == http.MethodGet &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// paramHeaders are the Mcp-Param-* headers that a page is about to send. The schemas of
// the tools define them, so there is no list.
func paramHeaders(r *http.Request) (names []string) {
	for _, value := range r.Header["Access-Control-Request-Headers"] {
		for name := range strings.SplitSeq(value, ",") {
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); strings.HasPrefix(name, mcp.HeaderParamPrefix) {
				names = append(names, name)
			}
		}
	}
	return names
}

// ours reports whether hostport is an address of this gateway.
func (g *Guard) ours(hostport string, local net.Addr) bool {
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
