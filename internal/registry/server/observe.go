package server

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"
)

// observe gives each request an id, logs and measures it, and turns a panic into
// a 500. Nothing of a request's headers, query or body is logged.
func observe(next http.Handler, m *metrics, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		id := rand.Text()
		w.Header().Set("X-Request-Id", id)
		rec := &recorder{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler { //nolint:errorlint // a panic's value, compared as net/http does
					panic(p)
				}
				log.Error("a request failed badly", "requestId", id, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				if rec.status == 0 {
					http.Error(rec, `{"error":"the registry failed; see its log"}`, http.StatusInternalServerError)
				}
			}
			route := r.Pattern
			if route == "" || route == "/" {
				route = "none"
			}
			took := time.Since(start)
			m.observeRequest(route, r.Method, strconv.Itoa(rec.code()), took)
			log.Info("request", "requestId", id, "method", r.Method, "path", r.URL.Path, "route", route, "status", rec.code(),
				"bytes", rec.bytes, "durationMs", float64(took.Microseconds())/1000, "remote", r.RemoteAddr)
		}()
		next.ServeHTTP(rec, r)
	})
}

// recorder notes what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += n
	return n, err
}

// Unwrap lets http.ResponseController find what is underneath.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) code() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}
