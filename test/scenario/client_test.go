//go:build integration

package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// status is the output of `thv status` for a workload.
func (p *place) status(t *testing.T, name string) workload.Status {
	t.Helper()
	var st workload.Status
	if err := json.Unmarshal([]byte(p.thv(t, "status", name, "-o", "json")), &st); err != nil {
		t.Fatalf("thv status %s -o json: %v", name, err)
	}
	return st
}

// start runs a workload and returns its URL, the last line of run's output.
func (p *place) start(t *testing.T, args ...string) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(p.thv(t, append([]string{"run"}, args...)...)), "\n")
	return lines[len(lines)-1]
}

// goTestPlace is a place for a Go test, with the same checks at its end as a
// script's.
func goTestPlace(t *testing.T) *place {
	t.Helper()
	p, err := newPlace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, trace := range p.leave() {
			t.Errorf("left behind: %s", trace)
		}
	})
	return p
}

// wire is an HTTP client whose connections can be cut, as a laptop's are when
// its lid closes: no DELETE, no FIN.
type wire struct {
	client *http.Client
	dialer net.Dialer

	mu    sync.Mutex
	conns []net.Conn
	isCut bool
}

var errCut = errors.New("cut off")

func newWire() *wire {
	w := &wire{}
	w.client = &http.Client{Transport: &http.Transport{DialContext: w.dial, MaxIdleConnsPerHost: 4}}
	return w
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := w.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isCut {
		c.Close()
		return nil, errCut
	}
	w.conns = append(w.conns, c)
	return c, nil
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	for _, c := range w.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			tcp.SetLinger(0) // RST
		}
		c.Close()
	}
}

// textOf is a call's one text, or its error.
func textOf(ctx context.Context, s *mcp.ClientSession, tool string, args map[string]any, progress any) (string, error) {
	params := &mcp.CallToolParams{Name: tool, Arguments: args}
	if progress != nil {
		params.SetProgressToken(progress)
	}
	result, err := s.CallTool(ctx, params)
	if err != nil {
		return "", err
	}
	if len(result.Content) != 1 {
		return "", errors.New("the result has not one content")
	}
	text, ok := result.Content[0].(*mcp.TextContent)
	if !ok {
		return "", errors.New("the result is not text")
	}
	if result.IsError {
		return "", errors.New(text.Text)
	}
	return text.Text, nil
}
