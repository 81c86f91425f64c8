package httpd

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Deadlines is a stage that bounds how long a client can hold a connection without reading
// or writing, on every path: net/http alone has no limit for a body that no handler reads
// before the response, nor for a response that the client does not read. A handler that
// waits longer for its client sets deadlines of its own ([Core.ReadBody], [Stream.Run]).
func (c *Core) Deadlines(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			// The deadline stays for the rest of the body after the response.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(c.Timing.ReadBody))
		}
		next.ServeHTTP(&deadlineWriter{w, c.Timing.Write}, r)
	})
}

// deadlineWriter sets the deadline of a response when it begins.
type deadlineWriter struct {
	http.ResponseWriter
	write time.Duration
}

func (w *deadlineWriter) WriteHeader(status int) {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.write)) // the writer of a test has none
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (w *deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// NoBody skips the body of a request whose response is a stream: the stream cannot begin
// before all of the body has arrived, and until then the end of the client is not noticed.
// After false it has written a response.
func NoBody(w http.ResponseWriter, r *http.Request) bool {
	if r.ContentLength == 0 {
		return true
	}
	if _, err := io.CopyN(io.Discard, r.Body, SmallSize); !errors.Is(err, io.EOF) {
		w.Header().Set("Connection", "close")
		ProtocolFault(w, http.StatusBadRequest, "a GET has no body; this one is large, or did not arrive in time")
		return false
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return true
}
