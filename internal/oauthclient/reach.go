package oauthclient

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"unicode"

	"github.com/toolhaven/toolhaven/internal/oauth"
)

// reach is which addresses a resource may name: see the package comment.
type reach string

const (
	reachPublic  reach = "public"  // the internet only
	reachPrivate reach = "private" // private networks too
	reachAny     reach = "any"     // this machine too
)

// carrierGrade is shared address space (RFC 6598), which mesh networks use.
var carrierGrade = netip.MustParsePrefix("100.64.0.0/10")

// reachOf is the reach of the address that answered.
func reachOf(addr net.Addr) reach {
	if addr == nil {
		return reachPublic
	}
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return reachPublic
	}
	return reachOfIP(ap.Addr())
}

func reachOfIP(ip netip.Addr) reach {
	switch ip = ip.Unmap().WithZone(""); {
	case ip.IsLoopback():
		return reachAny
	case ip.IsPrivate(), carrierGrade.Contains(ip), ip.IsLinkLocalUnicast():
		return reachPrivate
	}
	return reachPublic
}

// isLoopback does not resolve names; localhost is this machine by RFC 6761.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// notInURLs are the printable ASCII characters that no URL has (RFC 3986 section 2).
const notInURLs = " \"<>\\^`{|}"

// checkURL parses a URL that a server named: absolute, HTTPS, or HTTP on this machine
// (OAuth 2.1 section 1.5), without user information and fragment. A literal address
// out of reach is refused here too, because another program, such as a browser, may
// open the URL. So are characters that no URL has: the person may paste it into a shell.
func (r reach) checkURL(what, raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, fmt.Errorf("%s is longer than %d bytes", what, maxURL)
	}
	if strings.ContainsAny(raw, notInURLs) || strings.ContainsFunc(raw, unicode.IsControl) {
		return nil, fmt.Errorf("%s %q has characters that no URL has", what, oauth.Hide(raw))
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("%s %q is not an absolute https URL", what, oauth.Hide(raw))
	}
	if u.User != nil || u.Fragment != "" {
		return nil, fmt.Errorf("%s %q has user information or a fragment", what, oauth.Hide(u.Redacted()))
	}
	loopback := isLoopback(u.Hostname())
	if u.Scheme == "http" && !loopback {
		return nil, fmt.Errorf("%s %q is not HTTPS", what, oauth.Hide(raw))
	}
	needed := reachPublic
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		needed = reachOfIP(ip)
	} else if loopback {
		needed = reachAny
	}
	if needed == reachAny && r != reachAny || needed == reachPrivate && r == reachPublic {
		return nil, fmt.Errorf("%s %q is not a public address, and a server at a public address must not name it", what, oauth.Hide(raw))
	}
	return u, nil
}

// maxURL bounds a URL that a server names, in bytes.
const maxURL = 4 << 10
