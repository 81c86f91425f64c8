package netguard

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

// answering is a resolver whose DNS server answers every question for an IPv4
// address with the next of the given ones, the last one for good, as a name that
// is rebound does (RFC 1035 section 4).
func answering(t *testing.T, addrs ...string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 1500)
		asked := 0
		for {
			n, peer, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			end := 12
			for end < n && buf[end] != 0 {
				end += int(buf[end]) + 1
			}
			if end += 5; end > n {
				continue
			}
			reply := append([]byte{}, buf[:end]...)
			reply[2], reply[3] = 0x81, 0x80                       // a response, recursion available
			copy(reply[6:12], []byte{0, 0, 0, 0, 0, 0})           // nothing answered yet
			if binary.BigEndian.Uint16(reply[end-4:end-2]) == 1 { // A
				addr := netip.MustParseAddr(addrs[min(asked, len(addrs)-1)]).As4()
				asked++
				reply[7] = 1
				reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				reply = append(reply, addr[:]...)
			}
			if _, err := conn.WriteTo(reply, peer); err != nil {
				return
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// What a name stands for is decided when the connection is made, each time.
func TestClient_DNSRebinding(t *testing.T) {
	var hits atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer server.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	for _, addr := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0"} {
		_, err := mustClient(t, Options{AllowHTTP: true, Resolver: answering(t, addr)}).Get("http://innocent.test:" + port)
		if !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if hits.Load() != 0 {
		t.Fatal("a connection was made")
	}
	// The same way leads there when it is allowed: the names above were resolved.
	open := mustClient(t, Options{AllowHTTP: true, AllowLoopback: true, Resolver: answering(t, "127.0.0.1", "10.0.0.1")})
	if _, err := open.Get("http://innocent.test:" + port); err != nil || hits.Load() != 1 {
		t.Fatalf("%v, %d requests", err, hits.Load())
	}
	open.CloseIdleConnections()
	if _, err := open.Get("http://innocent.test:" + port); !errors.Is(err, ErrForbidden) {
		t.Errorf("after rebinding: %v", err)
	}
}

func TestClient_ProxySettings(t *testing.T) {
	var hits atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	if _, err := mustClient(t, Options{AllowHTTP: true}).Get("http://10.0.0.1/"); !errors.Is(err, ErrForbidden) || hits.Load() != 0 {
		t.Errorf("%v, %d requests to the proxy", err, hits.Load())
	}
}
