package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/buildinfo"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// endpoint is the URL of a running workload, or the URL that was given.
func endpoint(ctx context.Context, app *App, target string) (string, workload.Transport, error) {
	if isURL(target) {
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
	if !serves(st) {
		return "", "", fmt.Errorf("workload %q is %s; %s", target, st.State, advice(st))
	}
	return st.URL, workload.Transport(st.ProxyMode), nil
}

func isURL(target string) bool {
	u, err := url.Parse(target)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https")
}

// protocolVersion reads --protocol: a version, or the name of an era, which is
// its newest version. "" lets the server choose.
func protocolVersion(value string) (mcp.Version, error) {
	switch v := mcp.Version(value); {
	case value == "", slices.Contains(mcp.Versions(), v):
		return v, nil
	case value == "stateless":
		return mcp.LatestStateless, nil
	case value == "session":
		return mcp.LatestSession, nil
	}
	return "", usage("--protocol %q is neither stateless nor session nor one of %v", value, mcp.Versions())
}

// connect tries streamable HTTP first, then HTTP+SSE (MCP basic/transports,
// Backwards Compatibility). The version is protocol, if it is not "", and
// otherwise the newest that the server speaks too.
func connect(ctx context.Context, who *person, target string, protocol mcp.Version) (*sdk.ClientSession, error) {
	at, mode, err := endpoint(ctx, who.app, target)
	if err != nil {
		return nil, err
	}
	session, err := dial(ctx, who, at, mode, protocol)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", at, err)
	}
	if got := session.InitializeResult().ProtocolVersion; protocol != "" && got != string(protocol) {
		_ = session.Close()
		return nil, fmt.Errorf("%s speaks protocol version %s, not %s", target, got, protocol)
	}
	return session, nil
}

func dial(ctx context.Context, who *person, at string, mode workload.Transport, protocol mcp.Version) (*sdk.ClientSession, error) {
	var failed error
	if mode != workload.SSE {
		session, err := open(ctx, who, protocol, func(c *http.Client) sdk.Transport {
			return &sdk.StreamableClientTransport{Endpoint: at, HTTPClient: c, MaxRetries: -1}
		})
		if err == nil {
			return session, nil
		}
		failed = err
	}
	if mode != workload.StreamableHTTP && ctx.Err() == nil {
		if protocol.IsStateless() { // HTTP+SSE has sessions only; the caller says what it speaks
			protocol = mcp.LatestSession
		}
		session, err := open(ctx, who, protocol, func(c *http.Client) sdk.Transport {
			return &sdk.SSEClientTransport{Endpoint: at, HTTPClient: c}
		})
		if err == nil {
			return session, nil
		}
		if failed == nil {
			failed = err
		}
	}
	return nil, failed
}

// open opens one connection.
func open(ctx context.Context, who *person, protocol mcp.Version, over func(*http.Client) sdk.Transport) (*sdk.ClientSession, error) {
	answers := &refusals{next: &boundedTransport{http.DefaultTransport}}
	parting := newParting(answers)
	client := sdk.NewClient(&sdk.Implementation{Name: "thv", Version: buildinfo.Get().Version}, who.options())
	client.AddSendingMiddleware(parting.middleware, answers.middleware, wholeAnswers)
	client.AddReceivingMiddleware(wholeQuestions)
	session, err := client.Connect(ctx, over(&http.Client{Transport: parting}), &sdk.ClientSessionOptions{ProtocolVersion: string(protocol)})
	return session, answers.explain(err)
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
