package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// Bounds for a registry that is down: until a connection is made (name lookup and
// TLS included), and until the response begins.
const (
	connectTimeout = 2500 * time.Millisecond
	answerTimeout  = 5 * time.Second
)

// fetcher sends requests to one registry.
type fetcher struct {
	client          *http.Client
	tokens          TokenSource // nil: none are sent
	plain           bool        // the connection is not encrypted
	connect, answer time.Duration
}

// newFetcher makes the fetcher of a registry. Its client follows redirects as the
// one it is given, but not to another origin, where a token would go with it.
func newFetcher(base *url.URL, client *http.Client, tokens TokenSource) *fetcher {
	own := *client
	own.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if req.URL.Scheme != base.Scheme || !strings.EqualFold(req.URL.Host, base.Host) {
			return fmt.Errorf("a redirect to another host (%s) is not followed", req.URL.Host)
		}
		if client.CheckRedirect != nil {
			return client.CheckRedirect(req, via)
		}
		if len(via) >= 10 { // as net/http has it
			return errors.New("there are more than 10 redirects")
		}
		return nil
	}
	return &fetcher{client: &own, tokens: tokens, plain: base.Scheme == "http" && !isLoopback(base.Hostname()), connect: connectTimeout, answer: answerTimeout}
}

// isLoopback: a name is not looked up; localhost is this machine (RFC 6761
// section 6.3).
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// response is an HTTP answer, read whole.
type response struct {
	status int
	isJSON bool
	body   []byte
}

// get fetches target, which may answer max bytes, with a token if there is one,
// and with another one if that was refused. Its errors are ErrUnreachable,
// ErrMalformed (too large), ErrUnauthorized, the token source's, or the context's
// own.
func (f *fetcher) get(ctx context.Context, target string, max int64) (*response, error) {
	token := ""
	if f.tokens != nil && !f.plain {
		var err error
		if token, err = f.tokens.Token(ctx); err != nil {
			return nil, err
		}
	}
	resp, err := f.send(ctx, target, token, max)
	if err != nil || resp.status != http.StatusUnauthorized {
		return resp, err
	}
	if f.plain {
		return nil, fmt.Errorf("%w, and a token is not sent over plain HTTP, except on this machine; use the registry's https URL", ErrUnauthorized)
	}
	renewer, ok := f.tokens.(Renewer)
	if !ok {
		return nil, resp.unauthorized(token)
	}
	if token, err = renewer.Renew(ctx, token); err != nil {
		return nil, err
	}
	if resp, err = f.send(ctx, target, token, max); err == nil && resp.status == http.StatusUnauthorized {
		return nil, resp.unauthorized(token)
	}
	return resp, err
}

// send sends one request.
func (f *fetcher) send(ctx context.Context, target, token string, max int64) (*response, error) {
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var connected atomic.Bool
	patience := time.AfterFunc(f.connect, func() {
		if connected.Load() {
			cancel(fmt.Errorf("no answer within %s", f.answer))
			return
		}
		cancel(fmt.Errorf("no connection within %s", f.connect))
	})
	defer func() { patience.Stop() }()
	traced := httptrace.WithClientTrace(bounded, &httptrace.ClientTrace{
		// From here on it has longer. Resetting is safe: a timer that has fired
		// has cancelled the request already, without a connection.
		GotConn: func(httptrace.GotConnInfo) {
			patience.Reset(f.answer)
			connected.Store(true)
		},
	})
	req, err := http.NewRequestWithContext(traced, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, f.unreachable(ctx, bounded, err)
	}
	defer resp.Body.Close()
	// A file may take long to arrive; the client's own timeout bounds that.
	patience.Stop()
	body, err := netguard.ReadBounded(resp.Body, max)
	if errors.Is(err, netguard.ErrTooLarge) {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err != nil {
		return nil, f.unreachable(ctx, bounded, err)
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return &response{
		status: resp.StatusCode, body: body,
		isJSON: (media == "application/json" || media == "application/problem+json") && json.Valid(body),
	}, nil
}

// unreachable explains why there was no response. A cancelled context stays that
// error.
func (f *fetcher) unreachable(ctx, bounded context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	if cause := context.Cause(bounded); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	var wrapped *url.Error
	if netguard.Late(err) {
		err = errors.New("it did not answer in time")
	} else if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("%w: %v", ErrUnreachable, err)
}

// unauthorized explains a 401 to a request with this token.
func (r *response) unauthorized(token string) error {
	if token == "" {
		return ErrUnauthorized
	}
	return fmt.Errorf("%w: it does not accept the token that was sent, though it is a fresh one", ErrUnauthorized)
}

// refusal explains a status that is neither 200, 401 nor 404.
func (r *response) refusal() error {
	switch {
	case r.status == http.StatusForbidden:
		return fmt.Errorf("it answers %d %s: it does not allow this to you", r.status, http.StatusText(r.status))
	case r.status >= 500, r.status == http.StatusTooManyRequests:
		return fmt.Errorf("%w: it answers %d %s", ErrUnreachable, r.status, http.StatusText(r.status))
	case r.status >= 300 && r.status < 400:
		return fmt.Errorf("%w: it answers with a redirect that is not followed (%d)", ErrMalformed, r.status)
	}
	return fmt.Errorf("%w: it answers %d %s", ErrMalformed, r.status, http.StatusText(r.status))
}

// file fetches a registry file.
func (f *fetcher) file(ctx context.Context, target string) ([]byte, error) {
	resp, err := f.get(ctx, target, maxFile)
	if err == nil && resp.status != http.StatusOK {
		err = resp.refusal()
	}
	if err != nil {
		return nil, fmt.Errorf("registry %s: %w", target, err)
	}
	return resp.body, nil
}
