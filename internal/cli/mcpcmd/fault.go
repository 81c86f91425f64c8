package mcpcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/plaintext"
)

const (
	maxErrorBody  = 64 << 10 // bytes that are read of a response with an error status
	maxErrorShown = 500      // characters that are shown of a server's text
)

// faults remembers the last response with an error status: the SDK's errors leave out
// its body, and with it the reason.
type faults struct {
	next http.RoundTripper

	mu   sync.Mutex
	last string // "" when the last response had no error status
}

func (f *faults) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.next.RoundTrip(r)
	if r.Method == http.MethodDelete || r.Method == http.MethodGet && r.Header.Get("Mcp-Protocol-Version") != "" {
		return resp, err // no command waits for the end of a session or its GET stream
	}
	last := ""
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body))
		last = httpFault(resp.StatusCode, resp.Header.Get("Content-Type"), body)
		if resp.StatusCode == http.StatusUnauthorized && strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer") {
			last += "; --token-file names a file with an access token"
		}
	}
	f.mu.Lock()
	f.last = last
	f.mu.Unlock()
	return resp, err
}

// httpFault describes a response with an error status: its JSON-RPC error, or the
// status and the text of "message", "error_description" (RFC 6749 section 5.2) or
// "error", or the body when it is plain text.
func httpFault(status int, contentType string, body []byte) string {
	var rpc struct{ Error jsonrpc.Error }
	if json.Unmarshal(body, &rpc) == nil && rpc.Error.Message != "" {
		return rpcFault(&rpc.Error)
	}
	var object map[string]any
	_ = json.Unmarshal(body, &object)
	reason := ""
	for _, key := range []string{"error", "error_description", "message"} {
		if s, ok := object[key].(string); ok {
			reason = s
		}
	}
	if strings.HasPrefix(contentType, "text/plain") {
		reason = string(body)
	}
	text := strings.TrimSpace(fmt.Sprintf("the answer is %d %s", status, http.StatusText(status)))
	if reason != "" {
		text += ": " + shown(reason)
	}
	return text
}

func rpcFault(e *jsonrpc.Error) string {
	return fmt.Sprintf("%s (JSON-RPC error %d)", shown(e.Message), e.Code)
}

// shown makes a server's text fit for one line of a message.
func shown(s string) string {
	s = plaintext.Line(strings.ToValidUTF8(s, "?"))
	if r := []rune(s); len(r) > maxErrorShown {
		s = string(r[:maxErrorShown-3]) + "..."
	}
	return s
}

// faultError is an error of the SDK with the server's text.
type faultError struct {
	text string
	err  error
}

func (f *faultError) Error() string { return f.text }
func (f *faultError) Unwrap() error { return f.err }

// explain replaces the text of an error of the SDK by the server's.
func (f *faults) explain(err error) error {
	var done *faultError
	if err == nil || errors.As(err, &done) {
		return err
	}
	var rpc *jsonrpc.Error
	if errors.As(err, &rpc) && rpc.Message != "rejected by transport" { // the SDK's own
		return &faultError{rpcFault(rpc), err}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != "" {
		return &faultError{f.last, err}
	}
	var unreached *url.Error
	if errors.As(err, &unreached) {
		return &faultError{unreached.Err.Error(), err}
	}
	return err
}

// middleware explains the errors of every request that the client sends.
func (f *faults) middleware(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, req)
		return result, f.explain(err)
	}
}
