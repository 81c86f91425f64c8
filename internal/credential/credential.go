// Package credential adds to the requests for one server what the server requires of
// their sender: fixed headers, a bearer token, the token of a login, or a token that the
// caller's own was exchanged for.
//
// A [Credential] sets headers for the caller of a request, which is in the request's
// context ([exchange.CallerOf]). [Transport] applies credentials to every request of a
// client. The configuration determines the credentials, not the server: a redirect or a
// response cannot change to whom one is sent, because the clients of this package
// (gateway/backend/httpconn) send requests to one origin only.
//
// An error of a credential is an [mcp.Error] that the client receives. No error and no log
// line contains a token. A request for which a credential fails is not sent.
package credential

import (
	"context"
	"io"
	"net/http"
	"slices"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Credential sets the headers that prove to a server on whose behalf a request is sent. It
// may be used concurrently.
type Credential interface {
	// Apply sets the headers of a request with the context ctx.
	Apply(ctx context.Context, h http.Header) error
}

// Renewer is a Credential that can be replaced when the server rejects it.
type Renewer interface {
	Credential
	// Renew sets the headers of a second attempt: h holds those that the server rejected
	// with status 401 or 403. It returns false when there is no other credential, and the
	// client receives the rejection.
	Renew(ctx context.Context, h http.Header, rejected *http.Response) (bool, error)
}

// anonymousKey is the context key of Anonymous.
type anonymousKey struct{}

// Anonymous returns a context for requests of the gateway's own, such as the liveness
// check. They have no caller, and are sent without a credential where it depends on one.
func Anonymous(ctx context.Context) context.Context {
	return context.WithValue(ctx, anonymousKey{}, true)
}

func isAnonymous(ctx context.Context) bool {
	anonymous, _ := ctx.Value(anonymousKey{}).(bool)
	return anonymous
}

// Transport returns a RoundTripper that applies the credentials, in this order, to each
// request before next sends it. A request that the server rejects is sent once more if one
// of them is a [Renewer] that has another credential. Without credentials it returns next.
func Transport(next http.RoundTripper, credentials ...Credential) http.RoundTripper {
	if len(credentials) == 0 {
		return next
	}
	return &transport{next: next, credentials: slices.Clone(credentials)}
}

type transport struct {
	next        http.RoundTripper
	credentials []Credential
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context()) // a RoundTripper must not change its request
	for _, c := range t.credentials {
		if err := c.Apply(r.Context(), out.Header); err != nil {
			closeBody(r)
			return nil, err
		}
	}
	resp, err := t.next.RoundTrip(out)
	if err != nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return resp, err
	}
	return t.retry(out, resp)
}

// retry sends a rejected request once more with another credential, if there is one.
func (t *transport) retry(rejected *http.Request, resp *http.Response) (*http.Response, error) {
	if rejected.Body != nil && rejected.GetBody == nil {
		return resp, nil
	}
	again := rejected.Clone(rejected.Context())
	renewed := false
	for _, c := range t.credentials {
		renewer, ok := c.(Renewer)
		if !ok {
			continue
		}
		another, err := renewer.Renew(rejected.Context(), again.Header, resp)
		if err != nil {
			discard(resp)
			return nil, err
		}
		renewed = renewed || another
	}
	if !renewed {
		return resp, nil
	}
	discard(resp)
	if rejected.GetBody != nil {
		var err error
		if again.Body, err = rejected.GetBody(); err != nil {
			return nil, err
		}
	}
	return t.next.RoundTrip(again)
}

// CloseIdleConnections is forwarded: net/http looks for it at the outermost RoundTripper
// only.
func (t *transport) CloseIdleConnections() {
	(&http.Client{Transport: t.next}).CloseIdleConnections()
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// maxDiscard bounds what is read of a rejection so that its connection can be reused.
const maxDiscard = 64 << 10

func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxDiscard)
	_ = resp.Body.Close()
}

// unauthorized is an error with HTTP status 401: the caller's own token is at fault.
func unauthorized(message string) error {
	return &mcp.Error{Code: mcp.CodeServerGone, Message: message, Status: http.StatusUnauthorized}
}

// unavailable is an error with HTTP status 503: a later request may succeed.
func unavailable(message string) error {
	return &mcp.Error{Code: mcp.CodeServerGone, Message: message, Status: http.StatusServiceUnavailable}
}
