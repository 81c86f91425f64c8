package web

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry/catalog"
)

// location is where browsers reach the pages.
type location struct {
	base   string // scheme, host and path, without a slash at the end; or ""
	prefix string // path of base
}

func newLocation(base string) (location, error) {
	if base == "" {
		return location{}, nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return location{}, fmt.Errorf("web: %q is not the http(s) URL of a server", base)
	}
	l := location{prefix: strings.TrimRight(u.EscapedPath(), "/")}
	// The path is part of links and of the paths of cookies.
	if strings.ContainsAny(l.prefix, ";,\"\\ ") || strings.HasPrefix(l.prefix, "//") {
		return location{}, fmt.Errorf("web: the path of %q cannot be the path of a page", base)
	}
	l.base = u.Scheme + "://" + u.Host + l.prefix
	return l, nil
}

// origin is the scheme and host of the pages; "" without a base.
func (l location) origin() string { return strings.TrimSuffix(l.base, l.prefix) }

func (l location) https() bool { return strings.HasPrefix(l.base, "https://") }

// trustworthy reports whether browsers consider the origin trustworthy (W3C Secure
// Contexts, section 3.1). On others they ignore an opener policy with a warning.
func (l location) trustworthy(r *http.Request) bool {
	if l.https() || secureRequest(r) {
		return true
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return ip.IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func (l location) catalog(reg catalog.Registry) string {
	return l.prefix + "/catalog/" + url.PathEscape(reg.Name())
}

func (l location) list(reg catalog.Registry, search, cursor string) string {
	q := url.Values{}
	if search != "" {
		q.Set("q", search)
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if len(q) == 0 {
		return l.catalog(reg)
	}
	return l.catalog(reg) + "?" + q.Encode()
}

// server is the URL of a server's page. Each part of the name is a path segment.
func (l location) server(reg catalog.Registry, name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return l.prefix + "/server/" + url.PathEscape(reg.Name()) + "/" + strings.Join(parts, "/")
}

// login is the URL that starts a sign-in, which then redirects to the page next.
func (l location) login(next string) string {
	if next = ownPage(next); next == "/" {
		return l.prefix + "/login"
	}
	return l.prefix + "/login?" + url.Values{"next": {next}}.Encode()
}

// callback is the redirect URI of a sign-in.
func (l location) callback() string { return l.base + "/login/callback" }
