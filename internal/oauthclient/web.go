package oauthclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/oauth"
)

// Bounds: decisions.md, "Sizes and times".
const (
	maxDocument    = 1 << 20 // bytes of a file of the store
	requestTimeout = 10 * time.Second
	connectTimeout = 2500 * time.Millisecond
)

// web sends requests to servers within reach.
type web struct{ client *http.Client }

// within makes a client for addresses within r.
func (s *Store) within(r reach) (*web, error) {
	client, err := netguard.Client(netguard.Options{
		CAFiles: s.caFiles, AllowPrivate: r != reachPublic, AllowLoopback: r == reachAny, Timeout: requestTimeout,
	})
	if err != nil {
		return nil, err
	}
	return &web{client}, nil
}

func (w *web) close() { w.client.CloseIdleConnections() }

// answer is a response and the reach of the address that sent it.
type answer struct {
	*oauth.Response
	from reach
}

// do sends a request. It fails early when no connection is made.
func (w *web) do(req *http.Request) (*answer, error) {
	return w.observe(req, oauth.NewSender(w.client))
}

// probe sends a request whose response is not read: it may be a stream without an end.
// With a body it is a POST of JSON.
func (w *web) probe(ctx context.Context, target, token string, body []byte) (*answer, error) {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return w.observe(req, func(req *http.Request) (*oauth.Response, error) {
		client := *w.client
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		resp, err := client.Do(req)
		if err != nil {
			var wrapped *url.Error
			if errors.As(err, &wrapped) {
				err = wrapped.Err // the URL may hold a secret
			}
			return nil, fmt.Errorf("%s://%s: %w", req.URL.Scheme, req.URL.Host, err)
		}
		_ = resp.Body.Close()
		return &oauth.Response{Status: resp.StatusCode, Header: resp.Header}, nil
	})
}

// observe sends a request and records the reach of the address that answers.
func (w *web) observe(req *http.Request, send oauth.Sender) (*answer, error) {
	a := &answer{}
	ctx, cancel := context.WithCancelCause(req.Context())
	defer cancel(nil)
	noConnection := fmt.Errorf("%s://%s: no connection within %s", req.URL.Scheme, req.URL.Host, connectTimeout)
	timer := time.AfterFunc(connectTimeout, func() { cancel(noConnection) })
	defer timer.Stop()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		timer.Stop()
		a.from = reachOf(c.Conn.RemoteAddr())
	}})
	var err error
	a.Response, err = send(req.WithContext(ctx))
	switch {
	case err == nil:
		return a, nil
	case errors.Is(req.Context().Err(), context.Canceled):
		return nil, req.Context().Err()
	case errors.Is(context.Cause(ctx), noConnection):
		return nil, noConnection
	}
	return nil, err
}

// sender is do for package oauth.
func (w *web) sender() oauth.Sender {
	return func(req *http.Request) (*oauth.Response, error) {
		a, err := w.do(req)
		if err != nil {
			return nil, err
		}
		return a.Response, nil
	}
}

func (w *web) get(ctx context.Context, target, token string) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return w.do(req)
}

func (w *web) post(ctx context.Context, target, media string, body io.Reader, authenticate func(*http.Request)) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", media)
	if authenticate != nil {
		authenticate(req)
	}
	return w.do(req)
}

// decode decodes the JSON object of the response into v.
func (a *answer) decode(v any) error { return oauth.Decode(a.Body, v) }
