package gateway

import (
	"bytes"
	"context"
	"strings"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// properNames is the stage that refuses control characters in the name or URI of a request,
// in both eras: no tool has such a name, and headers, logs and terminals may interpret it
// differently from the server.
func properNames(next exchange.Handler) exchange.Handler {
	return func(ctx context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		if err := checkName(x.Request); err != nil {
			return nil, err
		}
		return next(ctx, x)
	}
}

// named is the member of a request's params with the name of its target, "" for a method
// that has none.
func named(method string) string {
	switch method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		return "name"
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		return "uri"
	}
	return ""
}

func checkName(m *mcp.Message) error {
	member := named(m.Method)
	// JSON has control characters as escapes only (RFC 8259 section 7), except for DEL. The
	// server refuses other faults of params.
	if member == "" || bytes.IndexByte(m.Params, '\\') < 0 && bytes.IndexByte(m.Params, 0x7f) < 0 {
		return nil
	}
	name, found, err := mcp.LookupString(m.Params, member)
	if err != nil || !found {
		return err
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params." + member + " of " + m.Method + " contains control characters"}
	}
	return nil
}
