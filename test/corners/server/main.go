// Server is the MCP server at the corners: one program, made with the Go SDK,
// that uses every way of the protocol and does so in the era of each request.
// Its tools that ask send a request to a client with a session, and answer a
// stateless one with input_required. It speaks stdio in both eras, or with -http
// one era: sessions, or none with -stateless.
//
// Clients run against it side by side. What one client causes is named by the
// key that it gives, so that no other can take it for its own.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	addr := flag.String("http", "", "serve streamable HTTP at this address and print it")
	stateless := flag.Bool("stateless", false, "with -http: without sessions, of 2026-07-28")
	sse := flag.Bool("sse", false, "with -http: HTTP+SSE of 2024-11-05 instead")
	flag.Parse()
	if err := serve(*addr, *stateless, *sse); err != nil {
		log.Fatal(err)
	}
}

func serve(addr string, stateless, sse bool) error {
	server := newServer()
	if addr == "" {
		return server.Run(context.Background(), &mcp.StdioTransport{})
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	one := func(*http.Request) *mcp.Server { return server }
	var handler http.Handler = mcp.NewStreamableHTTPHandler(one,
		&mcp.StreamableHTTPOptions{Stateless: stateless, PropagateRequestCancellation: stateless})
	if sse {
		handler = mcp.NewSSEHandler(one, nil)
	}
	return (&http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}).Serve(l)
}

const (
	patience = time.Minute

	stated = "2026-07-28" // the first version whose requests say everything themselves
	object = `{"type":"object"}`
	keyed  = `{"type":"object","properties":{"key":{"type":"string"}},"required":["key"]}`
)

func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "corners", Title: "The corners", Version: "1.2.3"}, &mcp.ServerOptions{
		Instructions: "Ask for anything.",
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{r.Params.Argument.Value + "da", r.Params.Argument.Value + "lan"}, Total: 2}}, nil
		},
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	addTools(s)
	addQuestions(s)
	addWaiting(s)
	s.AddPrompt(&mcp.Prompt{Name: "greet", Description: "greets", Arguments: []*mcp.PromptArgument{{Name: "name", Required: true}}},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Hello, " + r.Params.Arguments["name"]}}}}, nil
		})
	s.AddResource(&mcp.Resource{Name: "fixed", URI: "corner://fixed", MIMEType: "text/plain"}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{Name: "kept", URITemplate: "corner://kept/{key}", MIMEType: "text/plain"}, read)
	return s
}

func read(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	if strings.HasSuffix(r.Params.URI, "/missing") {
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "text/plain", Text: "what " + r.Params.URI + " holds"}}}, nil
}

type call = mcp.CallToolRequest

// add registers a tool whose result is one text.
func add(s *mcp.Server, name, schema string, run func(context.Context, *call) (string, error)) {
	s.AddTool(&mcp.Tool{Name: name, Description: "the tool " + name, InputSchema: json.RawMessage(schema)},
		func(ctx context.Context, r *call) (*mcp.CallToolResult, error) {
			text, err := run(ctx, r)
			if err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		})
}

func key(r *call) string {
	var in struct{ Key string }
	_ = json.Unmarshal(r.Params.Arguments, &in) // without a key it is ""
	return in.Key
}

//nolint:staticcheck // deprecated parts of the protocol are served, so they are shown
func addTools(s *mcp.Server) {
	// Its arguments are given back as they came: digits, order and all.
	s.AddTool(&mcp.Tool{
		Name: "echo", Title: "Echo", Description: "says it again: ä €",
		InputSchema:  json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"integer"}}}`),
		OutputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"integer"}}}`),
		Annotations:  &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, func(_ context.Context, r *call) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(r.Params.Arguments)}}, StructuredContent: r.Params.Arguments}, nil
	})
	// A client without sessions says region in a header too (SEP-2243), and the
	// server refuses a call whose header is not as its body.
	add(s, "region", `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`,
		func(_ context.Context, r *call) (string, error) { return string(r.Params.Arguments), nil })
	s.AddTool(&mcp.Tool{Name: "fail", InputSchema: json.RawMessage(object)}, func(context.Context, *call) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "it failed, as asked"}}}, nil
	})
	add(s, "spoken", object, func(_ context.Context, r *call) (string, error) { return r.ProtocolVersion(), nil })
	// It answers when its client says that it has heard enough, so progress that
	// is held back until the result comes is not seen. (The TypeScript SDK forgets
	// progress that it reads together with the result.)
	enough := newSignals()
	add(s, "progress", keyed, func(ctx context.Context, r *call) (string, error) {
		for i := range 5 {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 5, Message: fmt.Sprint("step ", i+1),
			})
			if err != nil {
				return "", err
			}
		}
		select {
		case <-enough.of(key(r)):
			return "done", nil
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(patience):
			return "nobody has heard enough", nil
		}
	})
	add(s, "enough", keyed, func(_ context.Context, r *call) (string, error) {
		close(enough.of(key(r)))
		return "enough", nil
	})
	add(s, "log", keyed, func(ctx context.Context, r *call) (string, error) {
		for _, level := range []mcp.LoggingLevel{"debug", "info", "warning", "error"} {
			if err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: level, Logger: "corner", Data: key(r)}); err != nil {
				return "", err
			}
		}
		return "logged", nil
	})
	grown := func(context.Context, *call) (string, error) { return "yes", nil }
	add(s, "grown", object, grown)
	// The same list again, so that clients side by side all see one list.
	add(s, "grow", object, func(context.Context, *call) (string, error) {
		add(s, "grown", object, grown)
		return "growing", nil
	})
	add(s, "touch", keyed, func(ctx context.Context, r *call) (string, error) {
		return "touched", s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "corner://kept/" + key(r)})
	})
}

// signals are channels by key.
type signals struct {
	mu sync.Mutex
	by map[string]chan struct{}
}

func newSignals() *signals { return &signals{by: map[string]chan struct{}{}} }

func (s *signals) of(key string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[key] == nil {
		s.by[key] = make(chan struct{})
	}
	return s.by[key]
}

// addWaiting adds a tool that waits to be cancelled, and one that tells what
// became of it.
func addWaiting(s *mcp.Server) {
	var mu sync.Mutex
	became := map[string]string{}
	tell := func(key, what string) { mu.Lock(); defer mu.Unlock(); became[key] = what }
	add(s, "wait", keyed, func(ctx context.Context, r *call) (string, error) {
		tell(key(r), "waiting")
		select {
		case <-ctx.Done():
			tell(key(r), "cancelled")
			return "", ctx.Err()
		case <-time.After(patience):
			tell(key(r), "never cancelled")
			return "waited", nil
		}
	})
	add(s, "became", keyed, func(_ context.Context, r *call) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		return "it is " + became[key(r)], nil
	})
}
