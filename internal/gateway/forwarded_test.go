package gateway

import (
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/endpoint"
)

func TestForwarded_OnlyFromATrustedProxy(t *testing.T) {
	for _, row := range []struct {
		name, configured, header string
		trust                    bool
		want                     string
	}{
		{name: "not trusted", header: "/tools/x", want: "/messages?"},
		{name: "trusted", header: "/tools/x", trust: true, want: "/tools/x/messages?"},
		{name: "with a slash at the end", header: "/tools/x/", trust: true, want: "/tools/x/messages?"},
		{name: "the configured one comes first", configured: "/own", header: "/tools/x", trust: true, want: "/own/messages?"},
		{name: "another host", header: "//evil.example", trust: true, want: "/messages?"},
		{name: "no path", header: "https://evil.example", trust: true, want: "/messages?"},
		{name: "a query", header: "/x?y", trust: true, want: "/messages?"},
		{name: "very long", header: "/" + strings.Repeat("x", 600), trust: true, want: "/messages?"},
		{name: "none", trust: true, want: "/messages?"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, srv := serve(t, newFakeBackend(), func(c *Config) {
				c.Endpoint.Mode, c.Endpoint.Prefix, c.TrustProxyHeaders = endpoint.SSE, row.configured, row.trust
			}, nil)
			c := newWire(t, srv)
			e := c.stream("GET", "/sse", "", "Accept: text/event-stream", "X-Forwarded-Prefix: "+row.header)
			endpoint := e.next()
			if !strings.HasPrefix(endpoint, row.want) {
				t.Fatalf("the endpoint is %q, want %q", endpoint, row.want)
			}
			if a := c.send("POST", strings.TrimPrefix(endpoint, strings.TrimSuffix(row.want, "/messages?")), initBody); a.status != 202 {
				t.Errorf("a POST there: %d %s", a.status, a.body)
			}
		})
	}
}

func TestForwarded_OriginOfTheForwardedHost(t *testing.T) {
	origin := []string{"Origin: https://tools.example", "X-Forwarded-Host: tools.example"}
	for _, row := range []struct {
		name    string
		trust   bool
		headers []string
		status  int
	}{
		{"trusted", true, origin, 200},
		{"not trusted", false, origin, 403},
		{"another host", true, []string{"Origin: https://evil.example", "X-Forwarded-Host: tools.example"}, 403},
		{"no forwarded host", true, []string{"Origin: https://tools.example"}, 403},
		// DNS rebinding: the page's own name is in the Host header.
		{"another Host", true, append([]string{"Host: tools.example"}, origin...), 403},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, srv := serve(t, newFakeBackend(), func(c *Config) { c.TrustProxyHeaders = row.trust }, nil)
			if a := newWire(t, srv).post(initBody, row.headers...); a.status != row.status {
				t.Errorf("got %d %s", a.status, a.body)
			}
		})
	}
}
