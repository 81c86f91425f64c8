package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// mirroring is a server of the stateless era with a tool whose argument has to be repeated
// in a header.
type mirroring struct{ exchange.BackendDefaults }

func (mirroring) Open(context.Context, *exchange.Client, exchange.Peer) (exchange.Conn, error) {
	return nil, errors.New("no sessions")
}

func (mirroring) Close() error { return nil }

func (mirroring) Do(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
	id := x.Request.ID
	switch {
	case x.Request.Method == mcp.MethodToolsList:
		if x.Headers != nil || !strings.Contains(string(x.Request.Params), mcp.MetaVersion) {
			return mcp.NewError(id, mcp.CodeInvalidParams, "no _meta"), nil
		}
		return mcp.NewResult(id, json.RawMessage(`{"tools":[{"name":"query","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]}`)), nil
	case x.Headers.Get("Mcp-Param-Region") != "eu":
		return mcp.NewError(id, mcp.CodeHeaderMismatch, "the header is missing"), nil
	}
	return mcp.NewResult(id, json.RawMessage(`{"content":[]}`)), nil
}

func TestArgumentsAreRepeatedInHeaders(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"name":"query","arguments":{"region":"eu"}}}`)
	if err := New(mirroring{}, &out, slog.New(slog.DiscardHandler)).Run(t.Context(), io.Reader(in)); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`+"\n" {
		t.Error(got)
	}
}
