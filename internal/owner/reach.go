package owner

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
)

// reach is the way of every request to an HTTP server. It tells the watch at once what
// the watch alone would find out at its next look: that a request did not get there, or,
// while the server is taken for lost, that one did. It makes no request of its own.
type reach struct {
	next http.RoundTripper
	// lost is true while the watch takes the server for lost.
	lost atomic.Bool
	// failed and answered hold one word each; who speaks never waits.
	failed, answered chan struct{}
}

func newReach(next http.RoundTripper) *reach {
	return &reach{next: next, failed: make(chan struct{}, 1), answered: make(chan struct{}, 1)}
}

// underway is the context key of the flag that a request sets when it gets on its way.
type underway struct{}

func (r *reach) RoundTrip(req *http.Request) (*http.Response, error) {
	if sent, ok := req.Context().Value(underway{}).(*atomic.Bool); ok {
		sent.Store(true)
	}
	resp, err := r.next.RoundTrip(req)
	switch {
	case err == nil && !notThere(resp.StatusCode):
		if r.lost.Load() {
			say(r.answered)
		}
	case !errors.Is(req.Context().Err(), context.Canceled): // else whoever asked has gone
		say(r.failed)
	}
	return resp, err
}

// CloseIdleConnections passes on what a backend asks for when it closes; net/http looks
// for it at the outermost RoundTripper only.
func (r *reach) CloseIdleConnections() { (&http.Client{Transport: r.next}).CloseIdleConnections() }

// notThere reports whether status is what stands before a server says when there is
// none behind it (RFC 9110 sections 15.6.3 to 15.6.5).
func notThere(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// mark notes whether the server is taken for lost; what was said before is old.
func (r *reach) mark(lost bool) {
	r.lost.Store(lost)
	hush(r.failed)
	hush(r.answered)
}

func say(word chan struct{}) {
	select {
	case word <- struct{}{}:
	default:
	}
}

func hush(word chan struct{}) {
	select {
	case <-word:
	default:
	}
}
