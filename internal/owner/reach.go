package owner

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
)

// reach observes every request to an HTTP server. It notifies the watch when a request
// did not reach the server, or, while the server is considered lost, when one did; the
// watch alone would notice at its next ping. It makes no request of its own.
type reach struct {
	next http.RoundTripper
	// lost is true while the watch considers the server lost.
	lost atomic.Bool
	// failed and answered hold one notification each, so that sending never blocks.
	failed, answered chan struct{}
}

func newReach(next http.RoundTripper) *reach {
	return &reach{next: next, failed: make(chan struct{}, 1), answered: make(chan struct{}, 1)}
}

// sentFlag is the context key of the flag that a request sets when it is sent.
type sentFlag struct{}

func (r *reach) RoundTrip(req *http.Request) (*http.Response, error) {
	if sent, ok := req.Context().Value(sentFlag{}).(*atomic.Bool); ok {
		sent.Store(true)
	}
	resp, err := r.next.RoundTrip(req)
	if err == nil {
		noteDenied(req.Context(), resp.StatusCode)
	}
	switch {
	case err == nil && !notThere(resp.StatusCode):
		if r.lost.Load() {
			notify(r.answered)
		}
	case !errors.Is(req.Context().Err(), context.Canceled): // else the caller has gone
		notify(r.failed)
	}
	return resp, err
}

// CloseIdleConnections is forwarded: a backend that closes calls it, and net/http looks
// for it at the outermost RoundTripper only.
func (r *reach) CloseIdleConnections() { (&http.Client{Transport: r.next}).CloseIdleConnections() }

// notThere reports whether status is that of a proxy whose server is not reachable
// (RFC 9110 sections 15.6.3 to 15.6.5).
func notThere(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// mark notes whether the server is considered lost, and drops earlier notifications.
func (r *reach) mark(lost bool) {
	r.lost.Store(lost)
	drain(r.failed)
	drain(r.answered)
}

func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func drain(ch chan struct{}) {
	select {
	case <-ch:
	default:
	}
}
