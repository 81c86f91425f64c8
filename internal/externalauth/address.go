package externalauth

import (
	"net"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// parseURL returns a URL with a host and without user information.
func (c *checker) parseURL(field, text string) *url.URL {
	if !c.required(field, text) {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(text, " \t\r\n") {
		c.add(field, "%.200q is not a URL with a host and without user information", text)
		return nil
	}
	return u
}

// endpoint checks a URL of HTTPS, or of HTTP on loopback.
func (c *checker) endpoint(field, text string) *url.URL {
	u := c.parseURL(field, text)
	switch {
	case u == nil:
	case u.Scheme != "https" && u.Scheme != "http":
		c.add(field, "%.200q must begin with https://", text)
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		c.add(field, "%.200q must begin with https://; http:// is for loopback only", text)
	case u.Fragment != "":
		c.add(field, "%.200q must not have a fragment", text)
	}
	return u
}

func (c *checker) httpsOnly(field, text string) {
	if u := c.parseURL(field, text); u != nil && u.Scheme != "https" {
		c.add(field, "%.200q must begin with https://", text)
	}
}

// issuer checks an identifier of an authorization server (RFC 8414 section 2).
func (c *checker) issuer(field, text string) {
	if u := c.endpoint(field, text); u != nil && !withoutEnd(text) {
		c.add(field, "%.200q must not end in a slash or have a query or fragment", text)
	}
}

func withoutEnd(text string) bool {
	return !strings.HasSuffix(text, "/") && !strings.ContainsAny(text, "?#")
}

func (c *checker) redirect(field, text string) {
	if text != "" {
		c.endpoint(field, text)
	}
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func (c *checker) hostPort(field, text string) {
	host, port, err := net.SplitHostPort(text)
	n, bad := strconv.Atoi(port)
	if err != nil || host == "" || bad != nil || n < 1 || n > 65535 {
		c.add(field, "%.200q is not host:port", text)
	}
}

// reservedHeaders belong to the connection (RFC 9110 section 7.6.1) or to the message.
var reservedHeaders = []string{
	"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Http2-Settings", "Cookie",
}

// header checks the name of a header that the gateway sets.
func (c *checker) header(field, name string) {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case !c.required(field, name):
	case !httpguts.ValidHeaderFieldName(name):
		c.add(field, "%.100q is not a name of a header", name)
	case slices.Contains(reservedHeaders, canonical) || strings.HasPrefix(canonical, "Proxy-") || strings.HasPrefix(canonical, "Mcp-"):
		c.add(field, "%s is set by the gateway, and cannot be given", canonical)
	}
}

func (c *checker) headerValue(field, value string) {
	if !httpguts.ValidHeaderFieldValue(value) {
		c.add(field, "its value has control characters")
	}
}
