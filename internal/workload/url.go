package workload

import (
	"net"
	"net/url"
	"strconv"
)

// URL is where a client reaches the workload. It depends on the Spec alone, so
// it is the same whenever the workload runs. A wildcard address is shown as the
// loopback address of its family.
func (s *Spec) URL() string {
	host := s.Proxy.Host
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	path := "/mcp"
	if s.Proxy.Mode == string(SSE) {
		// EndpointPrefix is for clients that come through a reverse proxy, which
		// takes it off; here there is none.
		path = "/sse"
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(s.Proxy.Port)), Path: path}
	return u.String()
}
