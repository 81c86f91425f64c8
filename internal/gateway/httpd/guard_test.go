package httpd

import (
	"net"
	"net/url"
	"strings"
	"testing"
)

func addr(t *testing.T, s string) net.Addr {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestGuard_LocalAddress(t *testing.T) {
	g := NewGuard(nil, false)
	// A zone is local to each machine (RFC 4007 section 6): clients leave it out.
	if linkLocal := addr(t, "[fe80::1%lo]:8080"); !g.ours("[fe80::1]:8080", linkLocal) || g.ours("[fe80::2]:8080", linkLocal) {
		t.Error("not of a link-local address")
	}
	local := addr(t, "192.168.7.5:8080")
	for host, ok := range map[string]bool{"192.168.7.5": true, "192.168.7.5:9000": true, "192.168.7.6": false, "[::ffff:192.168.7.5]": true} {
		if g.ours(host, local) != ok {
			t.Errorf("%s: %v", host, !ok)
		}
	}
}

// A host that is accepted as a loopback name is one for net/url too.
func FuzzLoopbackNames(f *testing.F) {
	for _, s := range []string{"localhost", "127.0.0.1:80", "[::1]:443", "LocalHost.:1", "localhost@evil", "127.0.0.1#@evil", "[::1]evil", "[::ffff:7f00:1]"} {
		f.Add(s)
	}
	g := NewGuard(nil, false)
	f.Fuzz(func(t *testing.T, host string) {
		if !g.ours(host, nil) {
			return
		}
		u, err := url.Parse("http://" + host + "/")
		if err != nil || u.User != nil || u.Host != host {
			t.Fatalf("%q is no host: %v", host, err)
		}
		name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
		if ip := net.ParseIP(name); name != "localhost" && (ip == nil || !ip.IsLoopback()) {
			t.Fatalf("%q is accepted as a loopback name", host)
		}
	})
}
