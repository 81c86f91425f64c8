package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// The client does as little as possible, so that the server is measured.
const (
	initialize  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	listTools   = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	callEcho    = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"the quick brown fox"}}}`
	// The same without a session (MCP 2026-07-28).
	callEchoModern = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"the quick brown fox"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}}}`
	echoed         = `the quick brown fox`
)

type session struct {
	client *http.Client
	url    string
	id     string
	modern bool // without a session
}

// era is how a client opens its session, if it has one.
type era = func(ctx context.Context, client *http.Client, url string) (*session, error)

// openModern begins nothing: there is no session.
func openModern(_ context.Context, client *http.Client, url string) (*session, error) {
	return &session{client: client, url: url, modern: true}, nil
}

func newHTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second}
}

func open(ctx context.Context, client *http.Client, url string) (*session, error) {
	s := &session{client: client, url: url}
	header, _, err := s.send(ctx, http.MethodPost, initialize)
	if err != nil {
		return nil, err
	}
	s.id = header.Get("Mcp-Session-Id")
	if _, err := s.post(ctx, initialized); err != nil {
		return nil, err
	}
	return s, nil
}

// send is one request with its whole answer; any status but success is an error.
func (s *session) send(ctx context.Context, method, body string) (http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if s.modern {
		req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", "tools/call")
		req.Header.Set("Mcp-Name", "echo")
	}
	if s.id != "" {
		req.Header.Set("Mcp-Session-Id", s.id)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	// Read to its end, so that the connection is used again.
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return nil, nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, nil, fmt.Errorf("%s %s: %s: %s", method, s.url, resp.Status, answer)
	}
	return resp.Header, answer, nil
}

func (s *session) post(ctx context.Context, body string) (string, error) {
	_, answer, err := s.send(ctx, http.MethodPost, body)
	return string(answer), err
}

// call is one tools/call, answered rightly.
func (s *session) call(ctx context.Context) error {
	body := callEcho
	if s.modern {
		body = callEchoModern
	}
	answer, err := s.post(ctx, body)
	if err == nil && !strings.Contains(answer, echoed) {
		err = fmt.Errorf("%s answered %.200q", s.url, answer)
	}
	return err
}

func (s *session) close(ctx context.Context) error {
	if s.modern {
		return nil
	}
	_, _, err := s.send(ctx, http.MethodDelete, "")
	return err
}
