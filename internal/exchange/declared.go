package exchange

import (
	"encoding/json"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Declared reads the declarations of a client of the session era from the params of its
// initialize (MCP, Lifecycle, Initialization). An unknown version becomes the latest, and
// an absent declaration an empty object. The declarations are parts of params. The error is
// an *mcp.Error.
func Declared(params json.RawMessage) (*Client, error) {
	version, found, err := mcp.LookupString(params, "protocolVersion")
	if err == nil && !found {
		err = &mcp.Error{Code: mcp.CodeInvalidParams, Message: "initialize needs a protocolVersion"}
	}
	if err != nil {
		return nil, err
	}
	c := &Client{Version: mcp.Version(version)}
	if !c.Version.IsSession() {
		c.Version = mcp.LatestSession
	}
	for key, raw := range map[string]*json.RawMessage{"capabilities": &c.Capabilities, "clientInfo": &c.Info} {
		value, found, err := mcp.Lookup(params, key)
		if err != nil {
			return nil, err
		}
		if !found {
			value = json.RawMessage(`{}`)
		}
		*raw = value
	}
	return c, nil
}
