package netguard

import (
	"net/url"
	"strings"
)

// Origin is the scheme, host and port of a URL in one spelling (RFC 6454 section 4):
// in lower case, without the scheme's default port.
func Origin(u *url.URL) string {
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port != "" && (scheme != "https" || port != "443") && (scheme != "http" || port != "80") {
		host += ":" + port
	}
	return scheme + "://" + host
}
