package owner

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/toolset"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// toolServer is an MCP server over real HTTP whose tools can be changed.
type toolServer struct {
	*sdk.Server
	url   string
	lists atomic.Int32 // tools/list requests
	fails atomic.Bool  // tools/list fails
}

func newToolServer(t *testing.T) *toolServer {
	t.Helper()
	s := &toolServer{Server: sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, nil)}
	s.define("greet", "greets")
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "tools/list" {
				s.lists.Add(1)
				if s.fails.Load() {
					return nil, fmt.Errorf("no list today")
				}
			}
			return next(ctx, method, req)
		}
	})
	server := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.Server }, nil))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	s.url = server.URL
	return s
}

func (s *toolServer) define(name, description string) {
	sdk.AddTool(s.Server, &sdk.Tool{Name: name, Description: description}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil, nil
	})
}

// tools are the names of the tools that a client of the gateway sees.
func (r *running) tools(t *testing.T) string {
	t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: r.spec.URL()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return strings.Join(names, " ")
}

// until polls the workload's status until ok holds.
func (r *running) until(t *testing.T, what string, ok func(*workload.Status) bool) {
	t.Helper()
	for deadline := time.Now().Add(waitTime); ; time.Sleep(20 * time.Millisecond) {
		st := r.status(t)
		if ok(st) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %+v", what, waitTime, st)
		}
	}
}

func (r *running) remembered(t *testing.T) toolset.Pins {
	t.Helper()
	for deadline := time.Now().Add(waitTime); ; time.Sleep(20 * time.Millisecond) {
		pins, err := r.store.Pins("r")
		if err != nil {
			t.Fatal(err)
		}
		if pins != nil {
			return pins
		}
		if time.Now().After(deadline) {
			t.Fatal("no tools are remembered")
		}
	}
}

// A list that a client receives is the occasion to compare the tools, without a
// configuration and without a notification.
func TestTools_ChangeInTheListOfAClient(t *testing.T) {
	t.Parallel()
	s := newToolServer(t)
	r := start(t, s.url, nil)
	r.waitReady(t)
	if pins := r.remembered(t); len(pins) != 1 || pins["greet"].Description != "greets" {
		t.Fatalf("remembered: %+v", pins)
	}
	s.define("greet", "greets, and sends the name elsewhere")
	if got := r.tools(t); got != "greet" {
		t.Errorf("a client sees %q", got)
	}
	r.until(t, "the change is in the status", func(st *workload.Status) bool {
		return st.ToolChanges == 1 && strings.Contains(strings.Join(st.Cautions, "\n"), "tools have changed")
	})
}

// With --pin-tools the owner receives notifications of a server over HTTP.
func TestTools_ListChanged(t *testing.T) {
	t.Parallel()
	s := newToolServer(t)
	r := start(t, s.url, func(_ *Config, spec *workload.Spec) { spec.Tools.Pin = true })
	r.waitReady(t)
	s.define("other", "new")
	r.until(t, "the change is in the status", func(st *workload.Status) bool { return st.ToolChanges == 1 })
	if got := r.tools(t); got != "greet" {
		t.Errorf("a client sees %q", got)
	}
	o, err := r.store.Owner("r")
	if err != nil {
		t.Fatal(err)
	}
	changes, err := o.AcceptTools(t.Context())
	if err != nil || len(changes) != 1 || changes[0].Kind != "new" {
		t.Errorf("accepted %+v, %v", changes, err)
	}
	if got := r.tools(t); got != "greet other" {
		t.Errorf("then a client sees %q", got)
	}
	if st := r.status(t); st.ToolChanges != 0 {
		t.Errorf("status: %+v", st)
	}
}

// Without pins no tool is shown: the first list that succeeds is remembered.
func TestTools_FirstListFails(t *testing.T) {
	t.Parallel()
	s := newToolServer(t)
	s.fails.Store(true)
	r := start(t, s.url, func(_ *Config, spec *workload.Spec) { spec.Tools.Pin = true })
	r.waitReady(t)
	r.until(t, "the reason is in the status", func(st *workload.Status) bool {
		return strings.Contains(strings.Join(st.Cautions, "\n"), "no tool is shown, because there are no pins yet: ")
	})
	s.fails.Store(false)
	if got := r.tools(t); got != "" {
		t.Errorf("a client sees %q", got)
	}
	r.remembered(t)
	r.until(t, "the reason is gone", func(st *workload.Status) bool { return len(st.Cautions) == 0 })
	if got := r.tools(t); got != "greet" {
		t.Errorf("then a client sees %q", got)
	}
}

// A list that was received before costs no further request to the server.
func TestTools_SameListAgain(t *testing.T) {
	t.Parallel()
	s := newToolServer(t)
	r := start(t, s.url, nil)
	r.waitReady(t)
	r.remembered(t)
	r.tools(t)
	for deadline := time.Now().Add(waitTime); s.lists.Load() < 3; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d lists", s.lists.Load())
		}
	}
	before := s.lists.Load() // two of the owner, one of the client
	for range 5 {
		r.tools(t)
	}
	if n := s.lists.Load() - before; n != 5 {
		t.Errorf("5 lists of clients are %d at the server", n)
	}
}

func TestTools_Faults(t *testing.T) {
	t.Parallel()
	notes := make(chan string, 8)
	r := start(t, newToolServer(t).url, func(c *Config, spec *workload.Spec) {
		spec.Tools.Filter = []string{"gret"}
		report := c.Notices
		c.Notices = func(n manager.Notice) {
			if n.Progress != nil && n.Progress.Stage == manager.NoteStage {
				notes <- n.Progress.Message
			}
			report(n)
		}
	})
	r.waitReady(t)
	const want = `the tools filter names "gret", but the server has no such tool; did you mean "greet"?`
	if len(notes) != 1 || <-notes != want {
		t.Error("the start has no note")
	}
	if st := r.status(t); len(st.Cautions) != 1 || st.Cautions[0] != want {
		t.Errorf("cautions: %q", st.Cautions)
	}
	o, err := r.store.Owner("r")
	if err != nil {
		t.Fatal(err)
	}
	list, err := o.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Tools) != 1 || list.Tools[0].Name != "greet" || list.Tools[0].Shown || list.Tools[0].Hidden != "filter" || list.All.Tokens == 0 || list.Shown.Tokens != 0 {
		t.Errorf("%+v", list)
	}
}
