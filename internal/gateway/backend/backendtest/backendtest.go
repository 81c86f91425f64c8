// Package backendtest has what the tests of several rooms of the backend need: a
// recording peer, clients, messages, and waits.
package backendtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Patience bounds every wait of a test for something that must happen.
const Patience = time.Minute

// TestContext is the context of t, which ends after Patience.
func TestContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Peer records what a server sends to a client and answers its questions.
type Peer struct {
	exchange.PeerDefaults
	Notes  chan *mcp.Message
	Answer func(context.Context, *mcp.Message) (*mcp.Message, error)
}

// NewPeer is a peer that records notifications and refuses requests.
func NewPeer() *Peer {
	return &Peer{
		Notes: make(chan *mcp.Message, 1000),
		Answer: func(_ context.Context, q *mcp.Message) (*mcp.Message, error) {
			return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "this peer answers nothing: " + q.Method}
		},
	}
}

// Notify implements [exchange.Peer].
func (p *Peer) Notify(m *mcp.Message) { p.Notes <- m }

// Ask implements [exchange.Peer].
func (p *Peer) Ask(ctx context.Context, q *mcp.Message) (*mcp.Message, error) {
	return p.Answer(ctx, q)
}

// Next is the next notification with the method; others are passed over.
func (p *Peer) Next(t *testing.T, method string) *mcp.Message {
	t.Helper()
	deadline := time.After(Patience)
	for {
		select {
		case m := <-p.Notes:
			if m.Method == method {
				return m
			}
		case <-deadline:
			t.Fatalf("no %s arrived", method)
		}
	}
}

// Answering is a peer that gives result to every question.
func Answering(results map[string]string) *Peer {
	p := NewPeer()
	p.Answer = func(_ context.Context, q *mcp.Message) (*mcp.Message, error) {
		r, ok := results[q.Method]
		if !ok {
			return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "no answer to " + q.Method}
		}
		return mcp.NewResult(q.ID, json.RawMessage(r)), nil
	}
	return p
}

// FullClient can do everything a server may ask for.
func FullClient() *exchange.Client {
	return &exchange.Client{
		Version:      mcp.V20251125,
		Capabilities: json.RawMessage(`{"sampling":{},"elicitation":{"form":{}},"roots":{"listChanged":true}}`),
		Info:         json.RawMessage(`{"name":"the client","version":"3"}`),
	}
}

// Request is a request with those params.
func Request(id mcp.ID, method, params string) *mcp.Message {
	return &mcp.Message{ID: id, Method: method, Params: json.RawMessage(params)}
}

// Call is a tools/call.
func Call(id mcp.ID, tool, arguments string) *mcp.Message {
	return Request(id, mcp.MethodToolsCall, fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
}

// ExchangeOf is a request of [FullClient].
func ExchangeOf(m *mcp.Message, p exchange.Peer) *exchange.Exchange {
	return &exchange.Exchange{Client: FullClient(), Request: m, Meta: MetaOf(m), Peer: p}
}

// MetaOf returns the _meta of a request. It is empty if the params cannot be parsed.
func MetaOf(m *mcp.Message) mcp.Meta {
	meta, err := mcp.ReadMeta(m.Params)
	if err != nil {
		return mcp.Meta{}
	}
	return meta
}

// Text is the text of a tool's result, or of an error.
func Text(m *mcp.Message, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	if m.Error != nil {
		return fmt.Sprintf("rpc error %d: %s", m.Error.Code, m.Error.Message)
	}
	var r struct {
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(m.Result, &r); err != nil || len(r.Content) != 1 {
		return "unexpected result " + string(m.Result)
	}
	return r.Content[0].Text
}

// CodeOf is the JSON-RPC code of err, 0 for none.
func CodeOf(err error) int {
	var rpc *mcp.Error
	if errors.As(err, &rpc) {
		return rpc.Code
	}
	return 0
}

// TestLog discards what is logged.
func TestLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Eventually polls until ok holds.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !ok(); time.Sleep(5 * time.Millisecond) { //nolint:forbidigo // this is the poll itself
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, Patience)
		}
	}
}

// Outcome is what an exchange that was begun came to.
type Outcome struct {
	M   *mcp.Message
	Err error
}

// Wait returns the outcome of a call.
func Wait(t *testing.T, done <-chan Outcome) (*mcp.Message, error) {
	t.Helper()
	select {
	case o := <-done:
		return o.M, o.Err
	case <-time.After(Patience):
		t.Fatal("the call has no outcome")
		return nil, nil
	}
}

// Everything is a DiscoverResult.
const Everything = `{"resultType":"complete","supportedVersions":["2026-07-28"],"instructions":"be kind",
	"capabilities":{"logging":{},"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true,"listChanged":true}},
	"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"modern","version":"1"}}}`

// Done is the result of a call in the stateless era.
const Done = `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`
