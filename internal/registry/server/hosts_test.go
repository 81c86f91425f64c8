package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry/config"
)

func TestHosts_Allowed(t *testing.T) {
	anonymous := &config.Config{Auth: config.Auth{Mode: config.ModeAnonymous}}
	oauth := &config.Config{
		Auth:         config.Auth{Mode: config.ModeOAuth, OAuth: &config.OAuth{ResourceURL: "https://Registry.example.com:8443/reg"}},
		AllowedHosts: []string{"registry.svc", "[2001:db8::1]:9000"},
	}
	loopback := []string{"localhost", "LOCALHOST:8080", "localhost.", "a.localhost:1", "127.0.0.1", "127.9.9.9:80", "[::1]:8080", "[::ffff:127.0.0.1]"}
	foreign := []string{"", "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "192.0.2.7", "0.0.0.0", "registry.svc.evil.example", "a b", "::"}
	for _, c := range []struct {
		name, address string
		cfg           *config.Config
		more          []string
	}{
		{"anonymous, loopback", "127.0.0.1:8080", anonymous, nil},
		{"anonymous, everywhere", ":8080", anonymous, []string{"198.51.100.4:8080", "198.51.100.4"}}, // where connections come to
		{"anonymous, a name", "tools.lan:8080", anonymous, []string{"tools.lan", "Tools.Lan:8080"}},
		{"oauth", ":8080", oauth, []string{"registry.example.com", "registry.example.com:8443", "registry.svc:80", "[2001:db8::1]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(newHosts(c.address, c.cfg).guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {})))
			try := func(host string, want int) {
				t.Helper()
				r := httptest.NewRequest("GET", "/", nil)
				r.Host = host
				r = r.WithContext(contextWithAddress(t, "198.51.100.4:8080"))
				w := httptest.NewRecorder()
				server.Config.Handler.ServeHTTP(w, r)
				if w.Code != want {
					t.Errorf("Host %q: %d, want %d", host, w.Code, want)
				}
				if host != "" && want != 200 && strings.Contains(w.Body.String(), host) {
					t.Errorf("the response repeats the host %q", host)
				}
			}
			for _, host := range append(loopback, c.more...) {
				try(host, http.StatusOK)
			}
			for _, host := range foreign {
				try(host, http.StatusMisdirectedRequest)
			}
		})
	}
}

// RFC 9112 section 6.1.
func TestServer_TwoLengths(t *testing.T) {
	handler := newHosts("127.0.0.1:0", &config.Config{}).guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	server := httptest.NewServer(handler)
	defer server.Close()
	for framing, closes := range map[string]bool{
		"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": true,
		"Content-Length: 3\r\n\r\nabc":                                     false,
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		read := bufio.NewReader(conn)
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\n%s", framing)
		resp, err := http.ReadResponse(read, nil)
		if err != nil || resp.StatusCode != http.StatusOK || resp.Close != closes {
			t.Fatalf("%q: %+v, %v", framing, resp, err)
		}
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if _, err := http.ReadResponse(read, nil); (err != nil) != closes {
			t.Errorf("%q: the next request on the connection: %v", framing, err)
		}
	}
}

func contextWithAddress(t *testing.T, address string) context.Context {
	return context.WithValue(t.Context(), http.LocalAddrContextKey, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)))
}
