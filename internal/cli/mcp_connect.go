package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/buildinfo"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// endpoint is the URL of a running workload, or the URL that was given.
func endpoint(ctx context.Context, app *App, target string) (string, workload.Transport, error) {
	if u, err := url.Parse(target); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return target, "", nil
	}
	if err := workload.ValidName(target); err != nil {
		return "", "", usage("%q is neither a workload's name nor an http(s) URL", target)
	}
	m, err := app.Manager()
	if err != nil {
		return "", "", err
	}
	st, err := m.Status(ctx, target)
	if err != nil {
		return "", "", err
	}
	if st.State != workload.Running && st.State != workload.Degraded {
		return "", "", fmt.Errorf("workload %q is %s; start it with `thv start %s`", target, st.State, target)
	}
	return st.URL, workload.Transport(st.ProxyMode), nil
}

// connect tries streamable HTTP first, then HTTP+SSE (MCP basic/transports,
// Backwards Compatibility).
func connect(ctx context.Context, app *App, target string) (*sdk.ClientSession, error) {
	at, mode, err := endpoint(ctx, app, target)
	if err != nil {
		return nil, err
	}
	httpClient := &http.Client{Transport: &boundedTransport{http.DefaultTransport}}
	client := sdk.NewClient(&sdk.Implementation{Name: "thv", Version: buildinfo.Get().Version}, nil)
	var failed error
	if mode != workload.SSE {
		session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: at, HTTPClient: httpClient, MaxRetries: -1}, nil)
		if err == nil {
			return session, nil
		}
		failed = err
	}
	if mode != workload.StreamableHTTP && ctx.Err() == nil {
		session, err := client.Connect(ctx, &sdk.SSEClientTransport{Endpoint: at, HTTPClient: httpClient}, nil)
		if err == nil {
			return session, nil
		}
		if failed == nil {
			failed = err
		}
	}
	return nil, fmt.Errorf("connect to %s: %w", at, failed)
}

// Bounds of what a server may say to one command.
const (
	maxListed = 10_000    // tools, resources or prompts
	maxHeard  = 128 << 20 // bytes of one response or stream
)

// collect reads a list to its end, page by page.
func collect[T any](what string, items iter.Seq2[T, error]) ([]T, error) {
	all := []T{} // never null in JSON
	for item, err := range items {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", what, err)
		}
		if all = append(all, item); len(all) > maxListed {
			return nil, fmt.Errorf("list %s: the server names more than %d", what, maxListed)
		}
	}
	return all, nil
}

// boundedTransport ends a response that is too long.
type boundedTransport struct{ next http.RoundTripper }

func (b *boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxHeard}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the server said more than %d bytes", maxHeard)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
