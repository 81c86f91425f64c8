package sessions

import (
	"bytes"
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

// declare reads the client's declarations in initialize, and checks their type and size.
// The result is a copy: the session does not hold the whole body.
func declare(m *mcp.Message, principal string) (*exchange.Client, error) {
	c, err := exchange.Declared(m.Params)
	if err != nil {
		return nil, err
	}
	if err := httpd.CheckDeclaration(c.Capabilities, "capabilities"); err != nil {
		return nil, err
	}
	if err := httpd.CheckDeclaration(c.Info, "clientInfo"); err != nil {
		return nil, err
	}
	c.Principal, c.Capabilities, c.Info = principal, bytes.Clone(c.Capabilities), bytes.Clone(c.Info)
	return c, nil
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
