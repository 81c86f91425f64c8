package netguard

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

func TestCheck(t *testing.T) {
	for address, public := range map[string]bool{
		"93.184.216.34:443": true, "[2606:2800:220:1:248:1893:25c8:1946]:443": true,
		"10.1.2.3:443": false, "172.16.0.1:443": false, "192.168.1.1:443": false,
		"169.254.169.254:80": false, "100.64.0.1:443": false, "0.0.0.0:80": false, "255.255.255.255:1": false,
		"224.0.0.1:1": false, "198.18.0.1:1": false, "192.0.2.1:1": false,
		"[::]:1": false, "[fe80::1]:1": false, "[fe80::1%eth0]:1": false, "[fc00::1]:1": false, "[ff02::1]:1": false,
		"[::ffff:10.0.0.1]:1": false, "[::ffff:93.184.216.34]:1": true,
		"[64:ff9b::a00:1]:1": false, "[64:ff9b::5db8:d822]:1": true, "[2002:a00:1::]:1": false, "[::a00:1]:1": false,
		"[2001:db8::1]:1": false, "nonsense": false,
	} {
		err := Options{}.check(address)
		if (err == nil) != public {
			t.Errorf("%s: %v", address, err)
		}
		if err != nil && !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: %v is not ErrForbidden", address, err)
		}
	}
	for _, address := range []string{"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "[64:ff9b::7f00:1]:1"} {
		if (Options{AllowPrivate: true}).check(address) == nil {
			t.Errorf("%s was allowed as private", address)
		}
		if err := (Options{AllowLoopback: true}).check(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := (Options{AllowPrivate: true}).check("10.0.0.1:1"); err != nil {
		t.Error(err)
	}
	if (Options{AllowLoopback: true}).check("10.0.0.1:1") == nil {
		t.Error("a private address was allowed as loopback")
	}
}

func mustClient(t *testing.T, opt Options) *http.Client {
	t.Helper()
	c, err := Client(opt)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClient_ForbiddenAddress(t *testing.T) {
	var hits atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer server.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"} {
		resp, err := mustClient(t, Options{AllowHTTP: true}).Get("http://" + host + ":" + port)
		if err == nil {
			resp.Body.Close()
			t.Errorf("%s was reached", host)
		}
	}
	if hits.Load() != 0 {
		t.Error("a connection was made")
	}
}

func TestClient_Redirects(t *testing.T) {
	var hits atomic.Int32
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer target.Close()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, target.URL, http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/end", http.StatusFound)
		}
	}))
	defer front.Close()
	strict := mustClient(t, Options{AllowLoopback: true})
	resp, err := strict.Get(front.URL + "/here")
	if err != nil || resp.StatusCode != http.StatusFound {
		t.Errorf("a redirect was followed: %v, %v", resp, err)
	}
	lenient := mustClient(t, Options{AllowLoopback: true, Redirects: 1})
	if resp, err := lenient.Get(front.URL + "/here"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("a redirect to the same host: %v, %v", resp, err)
	}
	if _, err := lenient.Get(front.URL + "/away"); err == nil {
		t.Error("a redirect to another host was followed")
	}
	if hits.Load() != 0 {
		t.Error("the other host was reached")
	}
}

func TestClient_PlainHTTP(t *testing.T) {
	c := mustClient(t, Options{AllowLoopback: true})
	if _, err := c.Get("http://example.com/"); err == nil || !strings.Contains(err.Error(), "only HTTPS") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Get("file:///etc/passwd"); err == nil {
		t.Error("a file was read")
	}
}

func TestClient_CAFiles(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	if _, err := mustClient(t, Options{AllowLoopback: true}).Get(server.URL); err == nil {
		t.Error("an unknown authority was trusted")
	}
	file := t.TempDir() + "/ca.pem"
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	resp, err := mustClient(t, Options{AllowLoopback: true, CAFiles: []string{file}}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for _, bad := range []string{file + "x", os.DevNull} {
		if _, err := Client(Options{CAFiles: []string{bad}}); err == nil {
			t.Errorf("%s was taken for a certificate", bad)
		}
	}
}

func TestReadBounded(t *testing.T) {
	if b, err := ReadBounded(strings.NewReader("abc"), 3); err != nil || string(b) != "abc" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := ReadBounded(strings.NewReader("abcd"), 3); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

// RFC 8996 retires what is older than TLS 1.2.
func TestClient_OldTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	file := t.TempDir() + "/ca.pem"
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := mustClient(t, Options{AllowLoopback: true, CAFiles: []string{file}}).Get(server.URL); err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("got %v", err)
	}
}

// What follows a 101 is the bare connection: neither a timeout nor a context would
// end reading it.
func TestClient_SwitchingProtocols(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn) // until the client hangs up
	}))
	defer srv.Close()
	client, err := Client(Options{AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(srv.URL)
	if err == nil {
		resp.Body.Close()
		t.Fatalf("got %s", resp.Status)
	}
	if !strings.Contains(err.Error(), "another protocol") {
		t.Error(err)
	}
}
