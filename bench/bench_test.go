package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client that accepted wrong responses would measure nothing.
func TestClient_RejectsWrongResponses(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	answer := echoed
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, _ map[string]any) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: answer}}}, nil, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer web.Close()
	s, err := open(t.Context(), newHTTPClient(), web.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.call(t.Context()); err != nil {
		t.Errorf("a right answer: %v", err)
	}
	answer = "something else"
	if err := s.call(t.Context()); err == nil {
		t.Error("a wrong answer passed")
	}
	if err := s.close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.call(t.Context()); err == nil {
		t.Error("a call of a session that is gone passed")
	}
}

func TestTheBaselinesRun(t *testing.T) {
	probe := filepath.Join(t.TempDir(), "probe")
	if out, err := exec.Command("go", "build", "-o", probe, "../test/servers/probe").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b := &bench{probe: probe, scale: 20}
	if rate, err := b.direct(t.Context(), 8, callEcho, probe); err != nil || rate < 1 {
		t.Errorf("direct: %v calls per second, %v", rate, err)
	}
	addr, end, err := daemon(t.Context(), probe, "-json", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	if v, err := b.latency(t.Context(), way{url: "http://" + addr + "/mcp", open: open}); err != nil || v <= 0 {
		t.Errorf("latency: %v µs, %v", v, err)
	}
	if v, err := b.throughput(t.Context(), way{url: "http://" + addr + "/mcp", open: open}, 4); err != nil || v < 1 {
		t.Errorf("throughput: %v per second, %v", v, err)
	}
}

func TestMedian(t *testing.T) {
	for want, values := range map[float64][]float64{2: {3, 1, 2}, 2.5: {4, 1, 2, 3}, 7: {7}} {
		if got := median(values); got != want {
			t.Errorf("median(%v) = %v; want %v", values, got, want)
		}
	}
}
