package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// A registry that is down must not keep a person waiting: until a connection
// stands (name lookup and TLS included), and until the answer begins.
const (
	connectTimeout = 2500 * time.Millisecond
	answerTimeout  = 10 * time.Second
)

// fetcher asks one registry over HTTP.
type fetcher struct {
	client          *http.Client
	connect, answer time.Duration
}

// response is an HTTP answer, read whole.
type response struct {
	status int
	isJSON bool
	body   []byte
}

// get fetches target, which may answer max bytes. Its errors are ErrUnreachable,
// ErrMalformed (too large), or the context's own.
func (f *fetcher) get(ctx context.Context, target string, max int64) (*response, error) {
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
		// has cancelled the request already.
		GotConn: func(httptrace.GotConnInfo) {
			connected.Store(true)
			patience.Reset(f.answer)
		},
	})
	req, err := http.NewRequestWithContext(traced, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
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

// unreachable explains why there was no answer, in few words. The person's own
// interruption stays what it is.
func (f *fetcher) unreachable(ctx, bounded context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	if cause := context.Cause(bounded); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		if err = wrapped.Err; wrapped.Timeout() {
			err = errors.New("it did not answer in time")
		}
	}
	return fmt.Errorf("%w: %v", ErrUnreachable, err)
}

// refusal explains a status that is neither 200 nor 404.
func (r *response) refusal() error {
	switch {
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden:
		return fmt.Errorf("it answers %d %s: it wants a sign-in, which thv cannot do yet", r.status, http.StatusText(r.status))
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
