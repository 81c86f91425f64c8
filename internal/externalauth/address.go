package externalauth

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/toolhaven/toolhaven/internal/headername"
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
	case !strings.HasPrefix(text, "https://") && !strings.HasPrefix(text, "http://"):
		c.add(field, "%.200q must begin with https://", text)
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		c.add(field, "%.200q must begin with https://; http:// is for loopback only", text)
	case u.Fragment != "":
		c.add(field, "%.200q must not have a fragment", text)
	}
	return u
}

func (c *checker) httpsOnly(field, text string) bool {
	u := c.parseURL(field, text)
	ok := strings.HasPrefix(text, "https://")
	if u != nil && !ok {
		c.add(field, "%.200q must begin with https://", text)
	}
	return u != nil && ok
}

// issuer checks an identifier of an authorization server (RFC 8414 section 2).
func (c *checker) issuer(field, text string) {
	if u := c.endpoint(field, text); u != nil {
		c.ends(field, text)
	}
}

// ends checks that nothing follows the path of a URL, as the pattern of the schema does.
func (c *checker) ends(field, text string) {
	switch {
	case strings.HasSuffix(text, "/") || strings.ContainsAny(text, "?#"):
		c.add(field, "%.200q must not end in a slash or have a query or fragment", text)
	case !urlPattern.MatchString(text):
		c.add(field, "%.200q is not a URL such as https://auth.example/tenant", text)
	}
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

// hostPort is an error for text that is no host with a port.
func hostPort(text string) error {
	host, port, err := net.SplitHostPort(text)
	n, bad := strconv.Atoi(port)
	if err != nil || host == "" || bad != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%.200q is not host:port", text)
	}
	return nil
}

// serverHeader is an error for a name of a header that cannot be set on requests to a
// server.
func serverHeader(name string) error { return header(name, headername.OfGateway) }

// requestHeader is the same for a request of another kind, which may choose what it accepts.
func requestHeader(name string) error { return header(name, headername.OfConnection) }

func header(name string, reserved func(string) bool) error {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case name == "":
		return errRequired
	case !httpguts.ValidHeaderFieldName(name):
		return fmt.Errorf("%.100q is not a name of a header", name)
	case reserved(name) || canonical == "Cookie":
		return fmt.Errorf("%s is set by the gateway, and cannot be given", canonical)
	}
	return nil
}

func headerValue(value string) error {
	if !httpguts.ValidHeaderFieldValue(value) {
		return errors.New("its value has control characters")
	}
	return nil
}
