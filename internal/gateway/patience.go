package gateway

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// patient bounds what a connection can be held up with by a client that neither
// reads nor writes, whatever it asks for and whether it is served: net/http alone
// would wait for ever for a body that nobody read, before it answers, and for an
// answer to be read. Who waits for its client longer than that says so itself
// ([Gateway.read], stream.go).
func (g *Gateway) patient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			// The deadline stays for what is left of the body when we have answered.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.pace.readBody))
		}
		next.ServeHTTP(&patientWriter{w, g.pace.write}, r)
	})
}

// patientWriter sets the deadline of an answer when it begins, however long that
// took.
type patientWriter struct {
	http.ResponseWriter
	write time.Duration
}

func (w *patientWriter) WriteHeader(status int) {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.write)) // a test's has none
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// noBody passes over the body of a request whose answer is a stream: that could not
// begin before all of it has come, nor would its client's end be noticed. A fault has
// been answered when it is false.
func noBody(w http.ResponseWriter, r *http.Request) bool {
	if r.ContentLength == 0 {
		return true
	}
	if _, err := io.CopyN(io.Discard, r.Body, smallSize); !errors.Is(err, io.EOF) {
		w.Header().Set("Connection", "close")
		protocolFault(w, http.StatusBadRequest, "a GET has no body; this one's is large, or did not arrive in time")
		return false
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return true
}
