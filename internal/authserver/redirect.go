package authserver

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// maxRedirect bounds a redirect URI, in bytes.
const maxRedirect = 2048

// forbiddenSchemes run code, read files or lead into the browser itself.
var forbiddenSchemes = []string{
	"javascript", "data", "vbscript", "file", "blob", "about", "filesystem", "view-source", "jar",
	"ws", "wss", "ftp", "mailto", "tel", "sms", "intent", "content", "chrome", "resource",
}

// checkRedirect reports why a client may not register a redirect URI: it is HTTPS, HTTP on the
// user's own machine (RFC 8252 section 7.3), or of the client's own scheme (section 7.1).
func checkRedirect(raw string) error {
	if len(raw) > maxRedirect {
		return fmt.Errorf("a redirect URI has at most %d bytes", maxRedirect)
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }) {
		return errors.New("a redirect URI has visible ASCII characters only, and no backslash")
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		return fmt.Errorf("%q is not an absolute URI", raw)
	}
	switch {
	case u.Fragment != "" || strings.Contains(raw, "#"): // RFC 6749 section 3.1.2
		return fmt.Errorf("%q has a fragment", raw)
	case u.User != nil:
		return fmt.Errorf("the redirect URI for %s has user information", u.Host)
	case u.Scheme == "https" && u.Hostname() == "", u.Scheme == "http" && u.Hostname() == "":
		return fmt.Errorf("%q has no host", raw)
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return fmt.Errorf("%q is plain HTTP to another machine; use https", raw)
	case slices.Contains(forbiddenSchemes, u.Scheme):
		return fmt.Errorf("a redirect URI must not have the scheme %s", u.Scheme)
	}
	return nil
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// sameRedirect compares by characters (RFC 9700 section 4.1.3), but for the port of a URI on
// the user's machine, which the system chose (RFC 8252 section 7.3).
func sameRedirect(registered, requested string) bool {
	if registered == requested {
		return true
	}
	a, errA := url.Parse(registered)
	b, errB := url.Parse(requested)
	if errA != nil || errB != nil || a.Scheme != "http" || !isLoopback(a.Hostname()) {
		return false
	}
	if checkRedirect(requested) != nil {
		return false
	}
	withoutPort := func(u *url.URL) string {
		c := *u
		c.Host = c.Hostname()
		return c.String()
	}
	return withoutPort(a) == withoutPort(b)
}

// redirectsHere reports whether a redirect ends in a program of the user's machine, which any
// program there could take the place of: HTTP on it, or a scheme.
func redirectsHere(raw string) bool {
	u, err := url.Parse(raw)
	return err != nil || u.Scheme != "https" || isLoopback(u.Hostname())
}

// shownRedirect is where a redirect leads, for a page: a host, or a scheme.
func shownRedirect(raw string) string {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return ""
	case u.Scheme != "http" && u.Scheme != "https":
		return u.Scheme + ":"
	case isLoopback(u.Hostname()):
		return "this computer (" + u.Hostname() + ")"
	}
	if host, port, err := net.SplitHostPort(u.Host); err == nil && port == "443" {
		return host
	}
	return u.Host
}
