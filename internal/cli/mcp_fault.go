package cli

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

// Bounds of what a refusal may say.
const (
	maxRefusal      = 64 << 10 // bytes that are looked at
	maxRefusalShown = 500      // characters that are shown
)

// refusals looks at the answers to one connection's requests. The SDK drops the
// body of most that fail, and with it the reason.
type refusals struct {
	next http.RoundTripper

	mu   sync.Mutex
	last string // the newest answer, if it is a refusal
}

func (f *refusals) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.next.RoundTrip(r)
	if r.Method == http.MethodDelete || r.Method == http.MethodGet && r.Header.Get("Mcp-Protocol-Version") != "" {
		return resp, err // the end of a session and its GET stream: no command waits for them
	}
	said := ""
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		// Nothing reads a body that is longer than this.
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body))
		said = refusal(resp.StatusCode, resp.Header.Get("Content-Type"), body)
	}
	f.mu.Lock()
	f.last = said
	f.mu.Unlock()
	return resp, err
}

// refusal puts an answer that is a failure into one sentence: a JSON-RPC error's, as
// it reads with any status, or the status and the words in the body.
func refusal(status int, contentType string, body []byte) string {
	var rpc struct {
		Error struct {
			Code    int64
			Message string
		}
	}
	if json.Unmarshal(body, &rpc) == nil && rpc.Error.Message != "" {
		return rpcSentence(rpc.Error.Code, rpc.Error.Message)
	}
	text := fmt.Sprintf("the answer is %d", status)
	if name := http.StatusText(status); name != "" {
		text += " " + name
	}
	if words := reason(contentType, body); words != "" {
		text += ": " + words
	}
	return text
}

// reason finds a failure's words: those of an object with "message" or
// "error_description" (RFC 6749 section 5.2), or a plain text.
func reason(contentType string, body []byte) string {
	var object struct {
		Error       any
		Message     string
		Description string `json:"error_description"`
	}
	if err := json.Unmarshal(body, &object); err == nil {
		if name, ok := object.Error.(string); ok && object.Message == "" && object.Description == "" {
			return shown(name)
		}
		return shown(object.Message + object.Description)
	}
	if strings.HasPrefix(contentType, "text/plain") {
		return shown(string(body))
	}
	return ""
}

// rpcSentence is a JSON-RPC error as a person reads it, the same in both eras.
func rpcSentence(code int64, message string) string {
	return fmt.Sprintf("%s (JSON-RPC error %d)", shown(message), code)
}

// shown is what a server says, short enough for a sentence.
func shown(s string) string {
	s = plaintext.Line(strings.ToValidUTF8(s, "?"))
	if r := []rune(s); len(r) > maxRefusalShown {
		s = string(r[:maxRefusalShown-3]) + "..."
	}
	return s
}

// faultError is an error of the SDK in the words of who caused it.
type faultError struct {
	words string
	err   error
}

func (f *faultError) Error() string { return f.words }
func (f *faultError) Unwrap() error { return f.err }

// explain finds the server's words for an error of the SDK, which else names its
// own steps and hides the answer.
func (f *refusals) explain(err error) error {
	var done *faultError
	if err == nil || errors.As(err, &done) {
		return err
	}
	var rpc *jsonrpc.Error
	if errors.As(err, &rpc) && rpc.Message != "rejected by transport" { // the SDK's own
		return &faultError{rpcSentence(rpc.Code, rpc.Message), err}
	}
	f.mu.Lock()
	last := f.last
	f.mu.Unlock()
	if last != "" {
		return &faultError{last, err}
	}
	var unreached *url.Error
	if errors.As(err, &unreached) {
		return &faultError{unreached.Err.Error(), err}
	}
	return err
}

// middleware explains the errors of all that a client sends.
func (f *refusals) middleware(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, req)
		return result, f.explain(err)
	}
}
