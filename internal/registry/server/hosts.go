package server

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/toolhaven/toolhaven/internal/framing"
	"github.com/toolhaven/toolhaven/internal/registry/config"
)

// hosts are the values of Host that requests may have. A web page whose name was
// made to resolve to this machine (DNS rebinding) is of the same origin as the
// registry for a browser, and its requests have that name in Host (RFC 9110
// section 7.2).
type hosts map[string]bool

// newHosts takes names from --address, resourceUrl and allowedHosts. Loopback names
// and the address that a connection came to are always allowed.
func newHosts(address string, cfg *config.Config) hosts {
	allowed := hosts{}
	if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
		allowed[hostName(host)] = true
	}
	if o := cfg.Auth.OAuth; o != nil {
		if u, err := url.Parse(o.ResourceURL); err == nil && u.Host != "" {
			allowed[hostName(u.Host)] = true
		}
	}
	for _, host := range cfg.AllowedHosts {
		allowed[hostName(host)] = true
	}
	return allowed
}

// hostName is a host without its port, as it is compared: ports do not matter,
// because a proxy may change them.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return host
}

func (h hosts) allow(r *http.Request) bool {
	name := hostName(r.Host)
	if h[name] || name == "localhost" || strings.HasSuffix(name, ".localhost") { // RFC 6761 section 6.3
		return true
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	if ip.IsLoopback() {
		return true
	}
	// Where all addresses are listened on, the machine's own are allowed.
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && hostName(local.String()) == ip.String()
}

// refusedHost does not repeat the request's Host.
const refusedHost = "this server is not reached under the host that the request names; if it should be, add the name to allowedHosts in its configuration"

// guard rejects requests for other hosts (RFC 9110 section 15.5.20).
func (h hosts) guard(next http.Handler) http.Handler {
	return framing.CloseChunked(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.allow(r) {
			writeJSON(w, http.StatusMisdirectedRequest, map[string]string{"error": refusedHost})
			return
		}
		next.ServeHTTP(w, r)
	}))
}
