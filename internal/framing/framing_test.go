package framing

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// RFC 9112 section 6.1.
func TestCloseChunked(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: CloseChunked(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })

	const plain, chunked, body = "Content-Length: 2\r\n\r\nab", "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", "ab"
	for _, tt := range []struct {
		name   string
		sent   []string // each after "POST / HTTP/1.1" and Host
		closed bool     // after the last response
	}{
		{"Content-Length", []string{plain, plain}, false},
		{"Transfer-Encoding", []string{chunked}, true},
		{"both", []string{"Content-Length: 2\r\n" + chunked}, true},
		{"both, the other way round", []string{"Transfer-Encoding: chunked\r\nCONTENT-length: 11\r\n\r\n2\r\nab\r\n0\r\n\r\n"}, true},
		{"both, later", []string{plain, "Content-Length: 2\r\n" + chunked}, true},
		{"one after the other", []string{plain, chunked}, true},
	} {
		for _, piece := range []int{1, 7, 10_000} { // bytes of one write
			t.Run(fmt.Sprintf("%s in pieces of %d", tt.name, piece), func(t *testing.T) {
				t.Parallel()
				c, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				answers := bufio.NewReader(c)
				for i, text := range tt.sent {
					text = "POST / HTTP/1.1\r\nHost: x\r\n" + text
					for len(text) > 0 {
						n := min(piece, len(text))
						if _, err := io.WriteString(c, text[:n]); err != nil {
							t.Fatal(err)
						}
						text = text[n:]
					}
					resp, err := http.ReadResponse(answers, nil)
					if err != nil {
						t.Fatal(err)
					}
					got, err := io.ReadAll(resp.Body)
					if err != nil || resp.StatusCode != 200 || string(got) != body {
						t.Fatalf("response %d: %d %q, %v", i, resp.StatusCode, got, err)
					}
					if closed := tt.closed && i == len(tt.sent)-1; resp.Close != closed {
						t.Fatalf("response %d: Connection: close is %v", i, resp.Close)
					}
				}
				if !tt.closed {
					return
				}
				if _, err := answers.ReadByte(); err != io.EOF {
					t.Errorf("the connection is open: %v", err)
				}
			})
		}
	}
}
