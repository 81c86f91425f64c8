package gateway

import (
	"net/http"
	"strings"
	"testing"
)

func TestGuard_Host(t *testing.T) {
	_, srv := serve(t, newFakeBackend(), func(c *Config) {
		c.Endpoint.AllowedHosts = []string{"tools.example", "ported.example:8443", "[2001:db8::1]"}
	}, nil)
	c := newWire(t, srv)
	tests := []struct {
		host string
		ok   bool
	}{
		{"127.0.0.1:8080", true}, {"127.0.0.1", true}, {"localhost", true}, {"localhost:6274", true}, {"LOCALHOST.", true},
		{"127.8.9.1:80", true}, {"[::1]:80", true}, {"[::1]", true}, {"[::ffff:127.0.0.1]", true},
		{"tools.example", true}, {"Tools.Example.:99", true}, {"ported.example:8443", true}, {"[2001:db8::1]:80", true},
		{"ported.example", false}, {"ported.example:80", false}, {"evil.example", false}, {"evil.example:8080", false},
		{"localhost.evil.example", false}, {"127.0.0.1.evil.example", false}, {"localhost@evil.example", false},
		{"10.0.0.1", false}, {"0.0.0.0", false}, {"[::]", false}, {"127.1", false}, {"2130706433", false}, {"[fe80::1]", false},
		{"localhost:99999", false}, {"localhost:x", false}, {"sub.localhost", false}, {"[localhost]", false}, {"::1", false},
	}
	for _, tt := range tests {
		for _, path := range []string{"/mcp", "/health", "/", "/sse", "/.well-known/oauth-protected-resource"} {
			a := c.send(http.MethodGet, path, "", "Host: "+tt.host)
			if (a.status != http.StatusForbidden) != tt.ok {
				t.Errorf("Host %q, %s: %d", tt.host, path, a.status)
			}
		}
	}
}

func TestGuard_Origin(t *testing.T) {
	_, srv := serve(t, newFakeBackend(), func(c *Config) { c.Endpoint.AllowedHosts = []string{"tools.example", "ported.example:8443"} }, nil)
	c := newWire(t, srv)
	for origin, ok := range map[string]bool{
		"http://localhost:6274": true, "http://127.0.0.1:3000": true, "https://[::1]:1": true, "https://tools.example": true,
		"https://tools.example:444": true, "https://ported.example:8443": true,
		"https://ported.example": false, "https://evil.example": false, "http://localhost.evil.example": false, "null": false,
		"file://": false, "chrome-extension://abcdef": false, "javascript:alert(1)": false, "http://": false, "localhost": false,
		"http://localhost http://evil.example": false, "http://user@evil.example": false,
	} {
		a := c.send(http.MethodGet, "/health", "", "Origin: "+origin)
		if (a.status != http.StatusForbidden) != ok {
			t.Errorf("Origin %q: %d", origin, a.status)
		}
		want := ""
		if ok {
			want = origin
		}
		if got := a.header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("Origin %q may read: %q", origin, got)
		}
	}
	if a := c.send(http.MethodGet, "/health", "", "Sec-Fetch-Site: cross-site"); a.status != http.StatusForbidden {
		t.Errorf("cross-site request without an origin: %d", a.status)
	}
}

func TestGuard_NoBackendConnection(t *testing.T) {
	b := newFakeBackend()
	_, srv := serve(t, b, nil, nil)
	c := newWire(t, srv)
	for _, headers := range [][]string{{"Origin: https://evil.example"}, {"Host: evil.example"}, {"Content-Type: text/plain"}} {
		if a := c.post(initBody, headers...); a.status < 400 {
			t.Errorf("%v: %d", headers, a.status)
		}
	}
	if len(b.conns) != 0 {
		t.Error("a connection was opened")
	}
}

func TestGuard_Preflight(t *testing.T) {
	_, srv := serve(t, newFakeBackend(), nil, nil)
	c := newWire(t, srv)
	ask := []string{"Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type,mcp-session-id"}
	a := c.send(http.MethodOptions, "/mcp", "", append(ask, "Origin: http://localhost:6274")...)
	if a.status != http.StatusNoContent || a.header.Get("Access-Control-Allow-Origin") != "http://localhost:6274" ||
		!strings.Contains(a.header.Get("Access-Control-Allow-Methods"), "DELETE") ||
		!strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "Mcp-Session-Id") {
		t.Errorf("%d %v", a.status, a.header)
	}
	// MCP 2026-07-28, basic/transports/streamable-http: the tool names them.
	ask[1] = "Access-Control-Request-Headers: content-type,mcp-param-region, x-other,mcp-param-tenant"
	a = c.send(http.MethodOptions, "/mcp", "", append(ask, "Origin: http://localhost:6274")...)
	if got := a.header.Get("Access-Control-Allow-Headers"); !strings.HasSuffix(got, "Mcp-Name, Mcp-Param-Region, Mcp-Param-Tenant") {
		t.Errorf("a page may send %q", got)
	}
	a = c.send(http.MethodOptions, "/mcp", "", append(ask, "Origin: https://evil.example")...)
	if a.status != http.StatusForbidden || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %v", a.status, a.header)
	}
	a = c.post(initBody, "Origin: http://localhost:6274")
	if got := a.header.Get("Access-Control-Expose-Headers"); got != "Mcp-Session-Id, WWW-Authenticate" {
		t.Errorf("a page can read %q", got)
	}
}
