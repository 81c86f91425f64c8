package httpconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// maxErrorBody bounds the part of an HTTP error's body that is read, in bytes.
const maxErrorBody = 64 << 10

// remote is an MCP server at an HTTP URL.
type remote struct {
	url    *url.URL
	client *http.Client
	// callers is nil where several principals share the remote.
	callers *exchange.LastCaller
}

// newRemote validates the URL. A nil transport means [http.DefaultTransport].
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

// sameServer follows a redirect that keeps the method and the body (307 and 308, RFC 9110
// sections 15.4.8 and 15.4.9) and stays at the same origin: servers that mount the
// protocol at a path redirect /mcp to /mcp/. It follows no other redirect. One could send
// a credential or the call to another server, or change the call.
func sameServer(req *http.Request, via []*http.Request) error {
	status, from := req.Response.StatusCode, via[0].URL
	asItIs := status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect
	if !asItIs || len(via) > maxRedirects || !sameOrigin(req.URL, from) {
		return http.ErrUseLastResponse
	}
	req.URL.User = from.User // net/http sends it as the Authorization header
	return nil
}

// newTransport returns the default RoundTripper with the header limit [mcp.MaxHeader].
func newTransport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = mcp.MaxHeader
	t.MaxIdleConnsPerHost = 32 // all requests of a backend go to one host
	return t
}

// String returns the URL without the parts that may be secret: user, query and fragment.
func (r *remote) String() string {
	return (&url.URL{Scheme: r.url.Scheme, Host: r.url.Host, Path: r.url.Path}).String()
}

// do sends one HTTP request. The caller closes the body of the response.
func (r *remote) do(ctx context.Context, method string, to *url.URL, header http.Header, body []byte) (*http.Response, error) {
	var reader io.Reader // an interface that holds a nil *bytes.Reader is not nil
	if body != nil {
		reader = bytes.NewReader(body)
	}
	ctx = r.callers.Attach(ctx)
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
		if refused, ok := errors.AsType[*mcp.Error](err); ok {
			return nil, refused // there is no credential for the request: package credential
		}
		gone := wire.ServerGone("the server at %s cannot be reached: %v", r, withoutURL(err))
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			return nil, &wire.NotConnectedError{Err: gone, TimedOut: op.Timeout()}
		}
		return nil, gone
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// Its body is the raw connection, which is not closed when ctx ends.
		_ = resp.Body.Close()
		return nil, wire.ServerGone("the server at %s switches to another protocol (HTTP 101), which was not requested", r)
	}
	return resp, nil
}

// post sends m with the headers h, to which it adds.
func (r *remote) post(ctx context.Context, to *url.URL, h http.Header, m *mcp.Message) (*http.Response, error) {
	h.Set("Content-Type", mcp.TypeJSON)
	// Both types on every POST (MCP, Streamable HTTP, Sending Messages, 2).
	h.Set("Accept", mcp.TypeJSON+", "+mcp.TypeEventStream)
	return r.do(ctx, http.MethodPost, to, h, m.Encode())
}

// get opens an event stream, which resumes after lastEventID if that is not empty.
func (r *remote) get(ctx context.Context, h http.Header, lastEventID string) (*http.Response, error) {
	h.Set("Accept", mcp.TypeEventStream)
	h.Set("Cache-Control", "no-store")
	if lastEventID != "" {
		h.Set(mcp.HeaderLastEventID, lastEventID)
	}
	return r.do(ctx, http.MethodGet, r.url, h, nil)
}

// mediaType returns the response's content type without parameters.
func mediaType(resp *http.Response) string {
	t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

// discard closes the body. It reads the rest of a small body first, so that the connection
// can be reused.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody)
	_ = resp.Body.Close()
}

// readJSON reads a body of at most [mcp.MaxEvent] bytes.
func (r *remote) readJSON(resp *http.Response) ([]byte, error) {
	if resp.ContentLength > mcp.MaxEvent {
		return nil, r.tooLarge()
	}
	// Content-Length may be wrong, so at most 64 KiB are allocated for it. The extra byte
	// is room for the read that returns io.EOF.
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

// refusal is an HTTP response whose status is not a success.
type refusal struct {
	status int
	// rpc is the JSON-RPC error in the body, nil if there is none.
	rpc *mcp.Message
	// text describes what was refused and how, for error messages and logs.
	text string
}

// refused reads the refusal from resp and closes the body. what describes the request.
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
		f.text = fmt.Sprintf("the server at %s requires authentication for %s (HTTP %s); give it a credential it accepts", r, what, status)
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

// whereTo describes the target of a redirect, without the parts that may be secret.
func whereTo(resp *http.Response) string {
	u, err := resp.Location()
	if err != nil || u.Host == "" {
		return ""
	}
	return " to " + wire.Printable((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String())
}

func (f *refusal) err() error { return wire.NewStatusError(f.status, f.text) }

// withoutURL removes the URL that net/http puts into its errors: its query may hold a
// secret.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
