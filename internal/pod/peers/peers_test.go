package peers

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/seal"
)

// replica is a replica that serves handler to its peers.
func replica(t *testing.T, key []byte, workload string, handler http.Handler) *Network {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := network(t, key, workload, l.Addr().String())
	server := &http.Server{Handler: Handler(handler), ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go server.Serve(n.Listener(l))
	t.Cleanup(func() { server.Close() })
	return n
}

func network(t *testing.T, key []byte, workload, self string) *Network {
	t.Helper()
	n, err := New(key, workload, self, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func TestForward(t *testing.T) {
	t.Parallel()
	key := seal.NewKey()
	holder := replica(t, key, "w", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Seen", strings.Join([]string{r.Method, r.Host, r.URL.RequestURI(), r.RemoteAddr, r.Header.Get("Authorization"), r.Header.Get("X-Forwarded-Host"), r.Header.Get(headerClient) + "."}, " "))
		w.WriteHeader(http.StatusTeapot)
		w.Write(b)
	}))
	front := network(t, key, "w", "127.0.0.1:1")
	r := httptest.NewRequest(http.MethodPost, "http://tools.example/a%2Fb?c=d", strings.NewReader("body"))
	r.RemoteAddr = "192.0.2.1:1234"
	r.Header.Set("Authorization", "Bearer t")
	r.Header.Set("X-Forwarded-Host", "outer.example")
	r.Header.Set(headerClient, "203.0.113.9:1") // a client cannot choose it
	w := httptest.NewRecorder()
	if !front.Forward(t.Context(), w, r, holder.Self()) {
		t.Fatal("not passed on")
	}
	if got, want := w.Header().Get("X-Seen"), "POST tools.example /a%2Fb?c=d 192.0.2.1:1234 Bearer t outer.example ."; got != want {
		t.Errorf("the holder saw %q, want %q", got, want)
	}
	if w.Code != http.StatusTeapot || w.Body.String() != "body" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// The address of a pod that is gone refuses connections, does not answer, or is another pod's.
func TestForward_ToNoReplica(t *testing.T) {
	t.Parallel()
	key := seal.NewKey()
	front := network(t, key, "w", "127.0.0.1:1")
	reached := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request arrived") })
	plain := httptest.NewServer(reached)
	t.Cleanup(plain.Close)
	encrypted := httptest.NewTLSServer(reached)
	t.Cleanup(encrypted.Close)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, address := range map[string]string{
		"no one":                    closed.Addr().String(),
		"one that does not answer":  silent.Addr().String(),
		"a server without TLS":      strings.TrimPrefix(plain.URL, "http://"),
		"a server with another key": strings.TrimPrefix(encrypted.URL, "https://"),
		"another workload":          replica(t, key, "other", reached).Self(),
		"another installation":      replica(t, seal.NewKey(), "w", reached).Self(),
		"a name":                    "localhost:80",
		"nothing":                   "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "http://x/mcp", strings.NewReader("body"))
			r.Header.Set("Authorization", "Bearer t")
			w := httptest.NewRecorder()
			if front.Forward(t.Context(), w, r, address) {
				t.Error("it was passed on")
			}
			if w.Body.Len() > 0 || len(w.Header()) > 0 {
				t.Errorf("something was written: %v %s", w.Header(), w.Body)
			}
			if rest, err := io.ReadAll(r.Body); err != nil || string(rest) != "body" {
				t.Errorf("the body is %q, %v", rest, err)
			}
		})
	}
}

func TestListener_RefusesStrangers(t *testing.T) {
	t.Parallel()
	key := seal.NewKey()
	holder := replica(t, key, "w", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request arrived") }))
	stranger, err := certificate(seal.NewKey(), "w")
	if err != nil {
		t.Fatal(err)
	}
	for name, certificates := range map[string][]tls.Certificate{"without a certificate": nil, "with another key": {stranger}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}}, Timeout: time.Minute}
			if resp, err := client.Get("https://" + holder.Self() + "/mcp"); err == nil {
				resp.Body.Close()
				t.Errorf("status %d", resp.StatusCode)
			}
		})
	}
}

// A replica that ends during a request: the client receives an error, and not half a success.
func TestForward_HolderEnds(t *testing.T) {
	t.Parallel()
	key := seal.NewKey()
	holder := replica(t, key, "w", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	front := network(t, key, "w", "127.0.0.1:1")
	w := httptest.NewRecorder()
	if !front.Forward(t.Context(), w, httptest.NewRequest(http.MethodPost, "http://x/mcp", strings.NewReader("body")), holder.Self()) {
		t.Fatal("a request that was sent is not one to serve again")
	}
	if w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), "replica") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
