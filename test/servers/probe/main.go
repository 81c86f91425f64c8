// Probe is a well-behaved MCP server for the scenarios, whose tools tell what
// the world looks like from where it runs: its environment, privileges, files
// and network. It speaks stdio, or HTTP with -http or -sse.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	child()
	httpAddr := flag.String("http", "", "serve streamable HTTP at this address, with sessions")
	sseAddr := flag.String("sse", "", "serve SSE at this address")
	jsonAddr := flag.String("json", "", "serve streamable HTTP at this address, answering plain JSON")
	statelessAddr := flag.String("stateless", "", "serve streamable HTTP without sessions at this address, answering plain JSON")
	forward := flag.String("forward", "", "do not serve; pass the connections at the address of -http on to this one")
	flag.Parse()
	if *forward != "" {
		log.Fatal(pass(*httpAddr, *forward))
	}
	if err := serve(*httpAddr, *sseAddr, *jsonAddr, *statelessAddr); err != nil {
		log.Fatal(err)
	}
}

func serve(httpAddr, sseAddr, jsonAddr, statelessAddr string) error {
	server := newServer()
	one := func(*http.Request) *mcp.Server { return server }
	switch {
	case httpAddr != "":
		return listen(httpAddr, mcp.NewStreamableHTTPHandler(one, nil))
	case jsonAddr != "":
		return listen(jsonAddr, mcp.NewStreamableHTTPHandler(one, &mcp.StreamableHTTPOptions{JSONResponse: true}))
	case statelessAddr != "":
		return listen(statelessAddr, mcp.NewStreamableHTTPHandler(one, &mcp.StreamableHTTPOptions{
			Stateless: true, JSONResponse: true, PropagateRequestCancellation: true,
		}))
	case sseAddr != "":
		return listen(sseAddr, mcp.NewSSEHandler(one, nil))
	default:
		return server.Run(context.Background(), &mcp.StdioTransport{})
	}
}

// listen serves at addr and prints the address it got, so that a test can let
// the system choose the port.
func listen(addr string, handler http.Handler) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(l)
}

// pass passes connections on, byte for byte: a server outside sees the requests that arrive
// in the container.
func pass(addr, to string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	for {
		in, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer in.Close()
			out, err := net.Dial("tcp", to)
			if err != nil {
				log.Print(err)
				return
			}
			defer out.Close()
			go func() {
				io.Copy(out, in)
				out.Close()
			}()
			io.Copy(in, out)
		}()
	}
}

func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "probe", Version: "1"}, nil)
	addEcho(s, "echo", "returns the text")
	add(s, "redefine", "adds or replaces a tool that returns its text", func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}) (string, error) {
		addEcho(s, in.Name, in.Description)
		return "redefined", nil
	})
	add(s, "env", "returns an environment variable", func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Name string `json:"name"`
	}) (string, error) {
		value, ok := os.LookupEnv(in.Name)
		if !ok {
			return "", fmt.Errorf("%s is not set", in.Name)
		}
		return value, nil
	})
	add(s, "read", "returns a file", func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Path string `json:"path"`
	}) (string, error) {
		b, err := os.ReadFile(in.Path)
		return string(b), err
	})
	add(s, "write", "writes a file", func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Path string `json:"path"`
		Text string `json:"text"`
	}) (string, error) {
		return "written", os.WriteFile(in.Path, []byte(in.Text), 0o644)
	})
	add(s, "dial", "connects to host:port", func(ctx context.Context, _ *mcp.CallToolRequest, in struct {
		Address string `json:"address"`
	}) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", in.Address)
		if err != nil {
			return "", err
		}
		return "connected", c.Close()
	})
	add(s, "fetch", "gets a URL, at an address or by a proxy if that is given", func(ctx context.Context, _ *mcp.CallToolRequest, in struct {
		URL string `json:"url"`
		At  string `json:"at,omitempty"`
		By  string `json:"by,omitempty"`
	}) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.DisableKeepAlives = true
		if in.By != "" {
			transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: in.By})
		}
		if in.At != "" {
			transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, network, in.At)
			}
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, in.URL, nil)
		if err != nil {
			return "", err
		}
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", resp.Status, body)
		}
		return string(body), err
	})
	add(s, "send", "sends a datagram to host:port and returns the answer", func(ctx context.Context, _ *mcp.CallToolRequest, in struct {
		Address string `json:"address"`
	}) (string, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "udp", in.Address)
		if err != nil {
			return "", err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
			return "", err
		}
		if _, err := c.Write([]byte("hello")); err != nil {
			return "", err
		}
		buf := make([]byte, 1500)
		n, err := c.Read(buf)
		return string(buf[:n]), err
	})
	add(s, "listen", "says hello to whoever connects to host:port, from now on", func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Address string `json:"address"`
	}) (string, error) {
		l, err := net.Listen("tcp", in.Address)
		if err != nil {
			return "", err
		}
		go hello(l)
		return l.Addr().String(), nil
	})
	add(s, "self", "returns this process's line of /proc/self/status", func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Field string `json:"field"`
	}) (string, error) {
		return statusField(in.Field)
	})
	add(s, "header", "returns a header of the request", func(_ context.Context, req *mcp.CallToolRequest, in struct {
		Name string `json:"name"`
	}) (string, error) {
		if req.Extra == nil || req.Extra.Header == nil {
			return "", errors.New("the request came without headers")
		}
		return fmt.Sprintf("%q", req.Extra.Header.Values(in.Name)), nil
	})
	add(s, "args", "returns the command line", func(context.Context, *mcp.CallToolRequest, struct{}) (string, error) {
		return strings.Join(os.Args[1:], " "), nil
	})
	add(s, "pid", "returns the process id", func(context.Context, *mcp.CallToolRequest, struct{}) (string, error) {
		return fmt.Sprint(os.Getpid()), nil
	})
	add(s, "sleep", "answers after so many milliseconds", func(ctx context.Context, _ *mcp.CallToolRequest, in struct {
		Milliseconds int `json:"milliseconds"`
	}) (string, error) {
		fmt.Fprintln(os.Stderr, "sleeping") // in the workload's log: the call has come
		select {
		case <-time.After(time.Duration(in.Milliseconds) * time.Millisecond):
			return "slept", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	addEscapes(s)
	addSpeed(s)
	mcp.AddTool(s, &mcp.Tool{Name: "ask", Description: "asks the client for a word and returns it"}, ask)
	add(s, "count", "reports progress three times, in the given words", func(ctx context.Context, req *mcp.CallToolRequest, in struct {
		Text string `json:"text"`
	}) (string, error) {
		for i := range 3 {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Message: in.Text, Progress: float64(i + 1), Total: 3,
			})
			if err != nil {
				return "", err
			}
		}
		return in.Text, nil
	})
	add(s, "crash", "ends the server before it answers", func(context.Context, *mcp.CallToolRequest, struct{}) (string, error) {
		fmt.Fprintln(os.Stderr, "probe: crashing as asked")
		os.Exit(7)
		return "", nil
	})
	return s
}

// hello answers each connection with a word.
func hello(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprint(c, "hello")
		c.Close()
	}
}

// ask asks as the era of its caller does: by a result that wants to be called again
// with the answer (MCP 2026-07-28), or by a request to the client.
func ask(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	question := &mcp.ElicitParams{Message: "say a word"}
	answer, _ := req.Params.InputResponses["word"].(*mcp.ElicitResult)
	if answer == nil && req.ProtocolVersion() >= "2026-07-28" {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"word": question}}, nil, nil
	}
	if answer == nil {
		var err error
		if answer, err = req.Session.Elicit(ctx, question); err != nil {
			return nil, nil, err
		}
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(answer.Content["word"])}}}, nil, nil
}

// addEcho registers a tool that returns its text.
func addEcho(s *mcp.Server, name, description string) {
	add(s, name, description, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
}

// readOnly are the tools whose annotations state that they change nothing.
var readOnly = map[string]bool{"args": true, "pid": true, "self": true}

// add registers a tool whose result is one text.
func add[In any](s *mcp.Server, name, description string, run func(context.Context, *mcp.CallToolRequest, In) (string, error)) {
	tool := &mcp.Tool{Name: name, Description: description}
	if readOnly[name] {
		tool.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: true}
	}
	mcp.AddTool(s, tool,
		func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
			text, err := run(ctx, req, in)
			if err != nil {
				return nil, nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
		})
}

// statusField is a field of /proc/self/status, such as CapEff or NoNewPrivs.
func statusField(field string) (string, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && name == field {
			return strings.TrimSpace(value), nil
		}
	}
	return "", errors.New("no such field: " + field)
}
