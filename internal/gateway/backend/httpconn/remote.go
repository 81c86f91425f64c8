package httpconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// maxErrorBody bounds how much of an HTTP error's body is read.
const maxErrorBody = 64 << 10

// remote is an HTTP server of the protocol, by its URL.
type remote struct {
	url    *url.URL
	client *http.Client
}

// newRemote checks the URL. A nil transport means one of its own.
func newRemote(rawURL string, transport http.RoundTripper) (*remote, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, errors.New("the server's URL must be an absolute http or https URL")
	}
	return &remote{url: u, client: &http.Client{
		Transport: transport, CheckRedirect: sameServer,
	}}, nil
}

// maxRedirects bounds how often one request is redirected.
const maxRedirects = 3

// sameServer follows a redirect that leads the request as it is (RFC 9110 section
// 15.4.8 and 9) elsewhere at the same origin: servers that mount the protocol at a path
// redirect /mcp to /mcp/. Any other could lead a credential, or the call, to another
// server, or make something else of the call.
func sameServer(req *http.Request, via []*http.Request) error {
	status, from := req.Response.StatusCode, via[0].URL
	asItIs := status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect
	if !asItIs || len(via) > maxRedirects || !sameOrigin(req.URL, from) {
		return http.ErrUseLastResponse
	}
	req.URL.User = from.User // which net/http makes a credential of
	return nil
}

// newTransport is the default RoundTripper, with the house's header limit.
func newTransport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = mcp.MaxHeader
	t.MaxIdleConnsPerHost = 32 // all requests of a backend go to one host
	return t
}

// String is the URL without what may be secret: user, query and fragment.
func (r *remote) String() string {
	return (&url.URL{Scheme: r.url.Scheme, Host: r.url.Host, Path: r.url.Path}).String()
}

// do sends one HTTP request. The body of the response is the caller's to close.
func (r *remote) do(ctx context.Context, method string, to *url.URL, header http.Header, body []byte) (*http.Response, error) {
	var reader io.Reader // a nil *bytes.Reader in it would not be nil
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, to.String(), reader)
	if err != nil {
		return nil, fmt.Errorf("make a request to %s: %w", r, withoutURL(err))
	}
	req.Header = header
	resp, err := r.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, wire.ServerGone("the server at %s cannot be reached: %v", r, withoutURL(err))
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// Its body is the bare connection, which does not end with ctx.
		_ = resp.Body.Close()
		return nil, wire.ServerGone("the server at %s switches to another protocol (HTTP 101), which it was not asked for", r)
	}
	return resp, nil
}

// post sends m with the headers of the session, which it adds to.
func (r *remote) post(ctx context.Context, to *url.URL, h http.Header, m *mcp.Message) (*http.Response, error) {
	h.Set("Content-Type", mcp.TypeJSON)
	// Both types on every POST (MCP, Streamable HTTP, Sending Messages, 2).
	h.Set("Accept", mcp.TypeJSON+", "+mcp.TypeEventStream)
	return r.do(ctx, http.MethodPost, to, h, m.Encode())
}

// get opens a stream of events, from after lastEventID if there is one.
func (r *remote) get(ctx context.Context, h http.Header, lastEventID string) (*http.Response, error) {
	h.Set("Accept", mcp.TypeEventStream)
	h.Set("Cache-Control", "no-store")
	if lastEventID != "" {
		h.Set(mcp.HeaderLastEventID, lastEventID)
	}
	return r.do(ctx, http.MethodGet, r.url, h, nil)
}

// mediaType is the response's content type without parameters.
func mediaType(resp *http.Response) string {
	t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

// discard reads what is left of a small body, so that the connection can be
// used again, and closes it.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody)
	_ = resp.Body.Close()
}

// readJSON reads a body of at most [mcp.MaxEvent] bytes.
func (r *remote) readJSON(resp *http.Response) ([]byte, error) {
	if resp.ContentLength > mcp.MaxEvent {
		return nil, r.tooLarge()
	}
	// The announced length is a promise, not a reason to set megabytes aside.
	// The byte beyond it is for finding the end.
	size := min(max(int(resp.ContentLength)+1, 512), 64<<10)
	for b := make([]byte, 0, size); ; {
		n, err := resp.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > mcp.MaxEvent:
			return nil, r.tooLarge()
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return nil, wire.ServerGone("the answer of the server at %s broke off: %v", r, withoutURL(err))
		case len(b) == cap(b):
			b = append(b, 0)[:len(b)]
		}
	}
}

func (r *remote) tooLarge() error {
	return wire.ServerGone("the answer of the server at %s is larger than %d MiB", r, mcp.MaxEvent>>20)
}

// refusal is what an HTTP response that is no success says.
type refusal struct {
	status int
	// rpc is the JSON-RPC error in the body, nil if there is none.
	rpc *mcp.Message
	// text says what was refused, by whom and how; it is for people.
	text string
}

// refused reads the error out of resp; what names the request. It closes the
// body.
func (r *remote) refused(resp *http.Response, what string) *refusal {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	_ = resp.Body.Close()
	f := &refusal{status: resp.StatusCode}
	if m, err := mcp.Parse(body); err == nil && m.Error != nil {
		f.rpc = m
	}
	status := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		f.text = fmt.Sprintf("the server at %s wants authentication for %s (HTTP %s); give it a credential it accepts", r, what, status)
	case resp.StatusCode == http.StatusForbidden:
		f.text = fmt.Sprintf("the server at %s does not allow %s (HTTP %s); check what its credential may do", r, what, status)
	case resp.StatusCode/100 == 3:
		f.text = fmt.Sprintf("the server at %s redirects %s%s (HTTP %s), and such redirects are not followed; use the URL it ends at", r, what, whereTo(resp), status)
	default:
		f.text = fmt.Sprintf("the server at %s refused %s with HTTP %s", r, what, status)
	}
	if f.rpc != nil {
		f.text += ": " + wire.Printable(f.rpc.Error.Message)
	} else if shown := wire.Printable(string(body)); shown != "" {
		f.text += ": " + shown
	}
	return f
}

// whereTo says where a redirect leads, without what may be secret.
func whereTo(resp *http.Response) string {
	u, err := resp.Location()
	if err != nil || u.Host == "" {
		return ""
	}
	return " to " + wire.Printable((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String())
}

func (f *refusal) err() error { return wire.NewStatusError(f.status, f.text) }

// withoutURL strips the URL that net/http puts into its errors: it may hold a
// secret in its query.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
