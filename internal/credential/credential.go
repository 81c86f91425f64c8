// Package credential adds to the requests for one server what the server requires of
// their sender: fixed headers, a bearer token, the token of a login, a token that the
// caller's own was exchanged for, a token of an upstream provider, or a signature.
//
// A [Credential] sets headers for the caller of a request, which is in the request's
// context ([exchange.CallerOf]). A [Signer] signs the request with these headers.
// [Transport] applies credentials to every request of a client. The caller's own headers
// are no part of such a request: the clients make requests of their own. The configuration determines the credentials, not the server: a redirect or a
// response cannot change to whom one is sent, because the clients of this package
// (gateway/backend/httpconn) send requests to one origin only.
//
// An error of a credential is an [mcp.Error] that the client receives. No error and no log
// line contains a token. A request for which a credential fails is not sent.
package credential

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/netguard"
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

// Signer is a Credential that depends on the whole request, such as a signature.
type Signer interface {
	Credential
	// Sign sets headers of r, after all credentials were applied. It changes nothing else of
	// r, and does not read r.Body: r.GetBody returns the body that is sent, and is nil only
	// without one. Sign is called again for a second attempt.
	Sign(r *http.Request) error
}

// maxSigned bounds the body of a request that is read in order to be signed. Requests of
// the gateway's clients are at most [mcp.MaxBody].
const maxSigned = 2 * mcp.MaxBody

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
// request before next sends it; then the Signers among them sign it. A request that the
// server rejects is sent once more if one of them is a [Renewer] that has another credential.
// Without credentials it returns next.
func Transport(next http.RoundTripper, credentials ...Credential) http.RoundTripper {
	if len(credentials) == 0 {
		return next
	}
	t := &transport{next: next, credentials: slices.Clone(credentials)}
	for _, c := range credentials {
		if signer, ok := c.(Signer); ok {
			t.signers = append(t.signers, signer)
		}
	}
	return t
}

type transport struct {
	next        http.RoundTripper
	credentials []Credential
	signers     []Signer
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
	if err := t.sign(out); err != nil {
		closeBody(out)
		return nil, err
	}
	resp, err := t.next.RoundTrip(out)
	if err != nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return resp, err
	}
	return t.retry(out, resp)
}

// sign calls the Signers, if there are any. It reads a body that cannot be read twice.
func (t *transport) sign(r *http.Request) error {
	if len(t.signers) == 0 {
		return nil
	}
	if r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		body, err := netguard.ReadBounded(r.Body, maxSigned)
		if err != nil {
			return fmt.Errorf("read the request that is to be signed: %w", err)
		}
		closeBody(r)
		r.ContentLength = int64(len(body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body, _ = r.GetBody()
	}
	for _, signer := range t.signers {
		if err := signer.Sign(r); err != nil {
			return err
		}
	}
	return nil
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
	if err := t.sign(again); err != nil {
		closeBody(again)
		return nil, err
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
