package sessions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// smallDeclarations is the size of declarations that are not counted; those of SDKs are
// far smaller.
const smallDeclarations = 4 << 10

var errDeclarationRoom = &mcp.Error{Code: mcp.CodeServerGone, Message: "too many sessions are open whose clients declare capabilities or information of more than 4 KiB; declare less, or try again later"}

// declare reads the client's declarations in initialize (MCP, Lifecycle, Initialization).
// An unknown version becomes the latest.
func declare(m *mcp.Message, principal string) (*exchange.Client, error) {
	version, found, err := mcp.LookupString(m.Params, "protocolVersion")
	if err == nil && !found {
		err = &mcp.Error{Code: mcp.CodeInvalidParams, Message: "initialize needs a protocolVersion"}
	}
	if err != nil {
		return nil, err
	}
	c := &exchange.Client{Principal: principal, Version: mcp.Version(version)}
	if !c.Version.IsSession() {
		c.Version = mcp.LatestSession
	}
	if c.Capabilities, err = declaration(m.Params, "capabilities"); err != nil {
		return nil, err
	}
	if c.Info, err = declaration(m.Params, "clientInfo"); err != nil {
		return nil, err
	}
	return c, nil
}

// declaration returns a copy: the session does not hold the whole body.
func declaration(params json.RawMessage, key string) (json.RawMessage, error) {
	raw, found, err := mcp.Lookup(params, key)
	if err == nil {
		err = httpd.CheckDeclaration(raw, key)
	}
	if err != nil {
		return nil, err
	}
	if !found {
		return json.RawMessage(`{}`), nil
	}
	return bytes.Clone(raw), nil
}

// agreedVersion reads the version of the server's response to initialize.
func agreedVersion(conn exchange.Conn) (mcp.Version, error) {
	v, _, err := mcp.LookupString(conn.InitializeResult(), "protocolVersion")
	if err != nil {
		return "", fmt.Errorf("read the server's response to initialize: %w", err)
	}
	if !mcp.Version(v).IsSession() {
		return "", errors.New("the server responded to initialize with an unsupported protocol version")
	}
	return mcp.Version(v), nil
}
