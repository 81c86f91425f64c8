package peers

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/seal"
)

// passing is a server that passes all requests on to a replica that serves handler.
func passing(ending context.Context, t *testing.T, handler http.HandlerFunc) (front *httptest.Server, accepted *counting) {
	t.Helper()
	key := seal.NewKey()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	holder := network(t, key, "w", l.Addr().String())
	n := network(t, key, "w", "127.0.0.1:1")
	accepted = &counting{Listener: l, links: &n.links}
	server := &http.Server{Handler: Handler(handler), ReadHeaderTimeout: time.Minute}
	go server.Serve(holder.Listener(accepted))
	t.Cleanup(func() { server.Close() })
	front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !n.Forward(ending, w, r, holder.Self()) {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(front.Close)
	return front, accepted
}

// counting counts connections from links, and keeps the last.
type counting struct {
	net.Listener
	links *links
	n     atomic.Int64
	last  atomic.Pointer[net.Conn]
}

func (c *counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.n.Add(1)
		c.last.Store(&conn)
	}
	return conn, err
}

// awaitEnd waits until the other side has noticed that a connection was closed.
func (c *counting) awaitEnd(t *testing.T) {
	t.Helper()
	open := func() bool {
		c.links.mu.Lock()
		defer c.links.mu.Unlock()
		for _, idle := range c.links.idle {
			return alive(idle[0].raw)
		}
		return true // it is not given back yet
	}
	for began := time.Now(); open(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("the link is open")
		}
	}
}

// sum is the digest of what is read.
func sum(r io.Reader) string {
	h := sha256.New()
	n, err := io.Copy(h, r)
	return fmt.Sprintf("%d %x %v", n, h.Sum(nil), err)
}

func TestForward_Bodies(t *testing.T) {
	t.Parallel()
	front, accepted := passing(t.Context(), t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, sum(r.Body))
	})
	const most = 3 << 20
	text := strings.Repeat("0123456789abcdef", most/16)
	for _, size := range []int{0, 1, 4096, smallBody - 1, smallBody, smallBody + 1, most} {
		for _, chunked := range []bool{false, true} {
			if chunked && size == 0 {
				continue
			}
			var body io.Reader = strings.NewReader(text[:size])
			if chunked {
				body = io.MultiReader(body) // of a length that net/http does not know
			}
			resp, err := http.Post(front.URL, "text/plain", body)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if want := sum(strings.NewReader(text[:size])); err != nil || string(got) != want {
				t.Errorf("%d bytes, chunked %v: %q, %v; want %q", size, chunked, got, err, want)
			}
		}
	}
	if got := accepted.n.Load(); got > 2 { // one more when the end of a large body was sent a moment late
		t.Errorf("%d connections for requests one after the other", got)
	}
}

// A replica that closes a connection between two requests, as one does that was not used for
// long, costs no request.
func TestForward_ClosedLink(t *testing.T) {
	t.Parallel()
	front, accepted := passing(t.Context(), t, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	for i := range 5 {
		resp, err := http.Post(front.URL, "text/plain", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || string(b) != "body" {
			t.Fatalf("request %d: %d %q, %v", i, resp.StatusCode, b, err)
		}
		if got := accepted.n.Load(); got != int64(i+1) {
			t.Fatalf("%d connections after %d requests and closed links", got, i+1)
		}
		(*accepted.last.Load()).Close()
		accepted.awaitEnd(t)
	}
}

// The header of a stream arrives before its first event, and each event when it is written.
func TestForward_Stream(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	left := make(chan struct{})
	front, _ := passing(t.Context(), t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for event := range next {
			io.WriteString(w, event+"\n")
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
		close(left)
	})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, front.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := bufio.NewReader(resp.Body)
	for _, event := range []string{"one", "two"} {
		next <- event
		if got, err := events.ReadString('\n'); got != event+"\n" {
			t.Fatalf("%q, %v; want %q", got, err, event)
		}
	}
	close(next)
	leave()
	select {
	case <-left:
	case <-time.After(time.Minute):
		t.Error("the client has left, and the replica does not notice")
	}
}

// A request ends with ending, whatever the other replica does.
func TestForward_Ending(t *testing.T) {
	t.Parallel()
	ending, end := context.WithCancel(t.Context())
	began := make(chan struct{})
	front, _ := passing(ending, t, func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	})
	go func() {
		<-began
		end()
	}()
	resp, err := http.Get(front.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadGateway {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// raw sends text to a server, closes that direction if half is set, and returns the response.
func raw(t *testing.T, server *httptest.Server, text string, half bool) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	if half {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// A body that the other replica refuses is not awaited.
func TestForward_RefusedEarly(t *testing.T) {
	t.Parallel()
	front, _ := passing(t.Context(), t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		io.WriteString(w, "too large")
	})
	for _, sent := range []string{"Content-Length: 100000000\r\n\r\nx", "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"} {
		resp, body := raw(t, front, "POST / HTTP/1.1\r\nHost: x\r\n"+sent, false)
		if resp.StatusCode != http.StatusRequestEntityTooLarge || body != "too large" || !resp.Close {
			t.Errorf("%q: %d %q, closed %v", sent, resp.StatusCode, body, resp.Close)
		}
	}
}

// A client that ends within its body is refused, and is no other replica's fault.
func TestForward_HalfABody(t *testing.T) {
	t.Parallel()
	front, _ := passing(t.Context(), t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
	})
	for _, sent := range []string{"Content-Length: 10\r\n\r\nx", "Content-Length: 100000\r\n\r\nx", "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"} {
		if resp, body := raw(t, front, "POST / HTTP/1.1\r\nHost: x\r\n"+sent, true); resp.StatusCode/100 != 4 {
			t.Errorf("%q: %d %q", sent, resp.StatusCode, body)
		}
	}
}

// Half a response does not look like a whole one.
func TestForward_HalfAResponse(t *testing.T) {
	t.Parallel()
	front, _ := passing(t.Context(), t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", "100")
		}
		io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	for _, path := range []string{"/length", "/chunked"} {
		resp, err := http.Get(front.URL + path)
		if err != nil {
			continue
		}
		if b, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("%s: %d %q without an error", path, resp.StatusCode, b)
		}
		resp.Body.Close()
	}
}

// Headers of one connection stay there (RFC 9110 section 7.6.1).
func TestForward_Headers(t *testing.T) {
	t.Parallel()
	front, _ := passing(t.Context(), t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "X-Own")
		w.Header().Set("X-Own", "1")
		w.Header()["X-Two"] = []string{"a", "b"}
		delete(r.Header, "User-Agent")
		fmt.Fprint(w, r.Header)
	})
	resp, body := raw(t, front, "GET / HTTP/1.1\r\nHost: x\r\nConnection: X-Named, close\r\nX-Named: 1\r\nTE: trailers\r\nUpgrade: h2c\r\nX-Two: a\r\nx-two: b\r\nthv-client-address: 192.0.2.1:1\r\n\r\n", false)
	if want := "map[X-Two:[a b]]"; body != want {
		t.Errorf("the replica received %s, want %s", body, want)
	}
	if got := fmt.Sprint(resp.Header["X-Two"], resp.Header["X-Own"]); got != "[a b] []" {
		t.Errorf("the client received %s", got)
	}
}
