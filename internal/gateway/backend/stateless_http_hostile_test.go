package backend

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

func TestModernHTTPBoundsWhatItReads(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("x"), 1<<20)
	forever := func(w http.ResponseWriter, r *http.Request, prefix string) {
		_, _ = io.WriteString(w, prefix)
		for range 200 {
			if _, err := w.Write(big); err != nil || r.Context().Err() != nil {
				return
			}
		}
		t.Error("it was all read")
	}
	tests := []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request)
		want   string
	}{
		{"an endless body", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			forever(w, r, `{"x":"`)
		}, "larger than 16 MiB"},
		{"an announced length beyond the bound", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			w.Header().Set("Content-Length", "99999999999")
			_, _ = io.WriteString(w, `{`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, "larger than 16 MiB"},
		{"an endless event", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", mcp.TypeEventStream)
			forever(w, r, `data: `)
		}, "larger than the limit"},
		{"an endless refusal", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			forever(w, r, `no `)
		}, "HTTP 500"},
		{"an endless success without an answer", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			forever(w, r, ``)
		}, "sent no response"},
		{"a bomb", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			w.Header().Set("Content-Encoding", "gzip")
			z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // it is slow with -race
			for range 20 {
				_, _ = z.Write(big)
			}
			_ = z.Close()
		}, "larger than 16 MiB"},
		{"compressed without being asked", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			w.Header().Set("Content-Encoding", "br")
			_, _ = w.Write([]byte{1, 2, 3})
		}, `content encoding "br"`},
		{"a body shorter than announced", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{}`)
		}, "broke off"},
		{"giant headers", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 64<<10))
		}, "cannot be reached"},
		{"a connection that ends", func(w http.ResponseWriter, r *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = c.Close()
			}
		}, "cannot be reached"},
		{"not HTTP", func(w http.ResponseWriter, r *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(c, "220 mail.example ESMTP\r\n")
				_ = c.Close()
			}
		}, "cannot be reached"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var posts atomic.Int64
			m := modernAt(t, answerBy(func(w http.ResponseWriter, r *http.Request, _ *mcp.Message) {
				posts.Add(1)
				tt.answer(w, r)
			}))
			answer, err := m.Do(backendtest.TestContext(t), modernExchange(backendtest.Call(mcp.IntID(7), "x", `{}`), nil))
			if got := backendtest.Text(answer, err); !strings.Contains(got, tt.want) || backendtest.CodeOf(err) != mcp.CodeServerGone || isOtherEra(err) {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if posts.Load() != 1 { // a call is never repeated
				t.Errorf("sent %d times", posts.Load())
			}
		})
	}
}
