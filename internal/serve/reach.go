package serve

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
)

// Reach observes every request to an HTTP server. It notifies the watch when a request
// did not reach the server, or, while the server is considered lost, when one did; the
// watch alone would notice at its next ping. It makes no request of its own.
type Reach struct {
	next http.RoundTripper
	// lost is true while the watch considers the server lost.
	lost atomic.Bool
	// Failed and Answered hold one notification each, so that sending never blocks: a
	// request did not reach the server; one did although the server is considered lost.
	Failed, Answered chan struct{}
}

// NewReach returns the Reach in front of next.
func NewReach(next http.RoundTripper) *Reach {
	return &Reach{next: next, Failed: make(chan struct{}, 1), Answered: make(chan struct{}, 1)}
}

// sentFlag is the context key of the flag that a request sets when it is sent.
type sentFlag struct{}

// RoundTrip implements [http.RoundTripper].
func (r *Reach) RoundTrip(req *http.Request) (*http.Response, error) {
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
			Notify(r.Answered)
		}
	case !errors.Is(req.Context().Err(), context.Canceled): // else the caller has gone
		Notify(r.Failed)
	}
	return resp, err
}

// CloseIdleConnections is forwarded: a backend that closes calls it, and net/http looks
// for it at the outermost RoundTripper only.
func (r *Reach) CloseIdleConnections() { (&http.Client{Transport: r.next}).CloseIdleConnections() }

// notThere reports whether status is that of a proxy whose server is not reachable
// (RFC 9110 sections 15.6.3 to 15.6.5).
func notThere(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// Mark notes whether the server is considered lost, and drops earlier notifications.
func (r *Reach) Mark(lost bool) {
	r.lost.Store(lost)
	drain(r.Failed)
	drain(r.Answered)
}

// Notify puts a notification into ch, if there is room for it.
func Notify(ch chan struct{}) {
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
