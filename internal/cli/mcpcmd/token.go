package mcpcmd

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/netguard"
)

// bearer adds an access token to the requests for one origin (RFC 6750 section 2.1). Others,
// to which a server may redirect, do not receive it.
type bearer struct {
	next         http.RoundTripper
	token        string
	scheme, host string
}

// withToken returns next with the token of --token-file for requests to the origin of at.
func (o *options) withToken(at string, next http.RoundTripper) (http.RoundTripper, error) {
	if o.tokenFile == "" {
		return next, nil
	}
	token, err := netguard.ReadSecret(o.tokenFile)
	if err != nil {
		return nil, base.Usage("--token-file: %v", err)
	}
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return nil, base.Usage("--token-file: %s has characters that no access token has", o.tokenFile)
		}
	}
	u, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "https" && !isLoopback(u.Hostname()) { // RFC 6750 section 5.3
		return nil, fmt.Errorf("the access token is not sent to %s without TLS", u.Host)
	}
	return &bearer{next, token, u.Scheme, u.Host}, nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == b.scheme && r.URL.Host == b.host {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}
