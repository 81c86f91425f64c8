package mcpcmd

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/buildinfo"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// maxResponse bounds one response or stream of a server, in bytes.
const maxResponse = 128 << 20

// protocolVersion parses --protocol: a version, or the name of an era, which stands
// for its newest version. "" leaves the choice to the server.
func protocolVersion(value string) (mcp.Version, error) {
	switch v := mcp.Version(value); {
	case value == "", slices.Contains(mcp.Versions(), v):
		return v, nil
	case value == "stateless":
		return mcp.LatestStateless, nil
	case value == "session":
		return mcp.LatestSession, nil
	}
	return "", base.Usage("--protocol %q is neither stateless nor session nor one of %v", value, mcp.Versions())
}

// endpoint returns the URL of a target and the transport that is served there; the
// transport of a URL is unknown ("").
func endpoint(ctx context.Context, app *base.App, target string) (string, workload.Transport, error) {
	if isURL(target) {
		return target, "", nil
	}
	if err := workload.ValidName(target); err != nil {
		return "", "", base.Usage("%q is neither a workload's name nor an http(s) URL", target)
	}
	m, err := app.Manager()
	if err != nil {
		return "", "", err
	}
	st, err := m.Status(ctx, target)
	if err != nil {
		return "", "", err
	}
	if !base.Serves(st) {
		return "", "", fmt.Errorf("workload %q %s; %s", target, base.Condition(st), base.Advice(st))
	}
	return st.URL, workload.Transport(st.ProxyMode), nil
}

func isURL(target string) bool {
	u, err := url.Parse(target)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https")
}

// connect tries streamable HTTP first, then HTTP+SSE (MCP basic/transports, Backwards
// Compatibility). It fails when the server does not accept the wanted version.
func connect(ctx context.Context, o *options, wanted mcp.Version, e *elicitor) (*sdk.ClientSession, error) {
	at, transport, err := endpoint(ctx, o.app, o.target)
	if err != nil {
		return nil, err
	}
	network, err := o.withToken(at, http.DefaultTransport)
	if err != nil {
		return nil, err
	}
	session, err := dial(ctx, at, transport, wanted, network, e)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", at, err)
	}
	if got := session.InitializeResult().ProtocolVersion; wanted != "" && got != string(wanted) {
		_ = session.Close()
		return nil, fmt.Errorf("%s speaks protocol version %s, not %s", o.target, got, wanted)
	}
	return session, nil
}

func dial(ctx context.Context, at string, transport workload.Transport, version mcp.Version, network http.RoundTripper, e *elicitor) (*sdk.ClientSession, error) {
	var first error
	if transport != workload.SSE {
		session, err := open(ctx, version, network, e, func(c *http.Client) sdk.Transport {
			return &sdk.StreamableClientTransport{Endpoint: at, HTTPClient: c, MaxRetries: -1}
		})
		if err == nil || transport == workload.StreamableHTTP || ctx.Err() != nil {
			return session, err
		}
		first = err
	}
	if version.IsStateless() { // HTTP+SSE has sessions only; connect reports the difference
		version = mcp.LatestSession
	}
	session, err := open(ctx, version, network, e, func(c *http.Client) sdk.Transport {
		return &sdk.SSEClientTransport{Endpoint: at, HTTPClient: c}
	})
	if err != nil && first != nil {
		err = first
	}
	return session, err
}

func open(ctx context.Context, version mcp.Version, network http.RoundTripper, e *elicitor, transport func(*http.Client) sdk.Transport) (*sdk.ClientSession, error) {
	faults := &faults{next: &boundedTransport{network}}
	client := sdk.NewClient(&sdk.Implementation{Name: "thv", Version: buildinfo.Get().Version}, &sdk.ClientOptions{
		Capabilities:       &sdk.ClientCapabilities{}, // no roots
		ElicitationHandler: e.elicit,
	})
	client.AddSendingMiddleware(faults.middleware)
	client.AddReceivingMiddleware(requireParams)
	session, err := client.Connect(ctx, transport(&http.Client{Transport: faults}), &sdk.ClientSessionOptions{ProtocolVersion: string(version)})
	return session, faults.explain(err)
}

// boundedTransport ends a response that is longer than maxResponse.
type boundedTransport struct{ next http.RoundTripper }

func (b *boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxResponse}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the response is longer than %d bytes", maxResponse)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
