package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// metaVersion is where a request of the stateless era names its version (MCP
// 2026-07-28, basic).
const metaVersion = "io.modelcontextprotocol/protocolVersion"

// checkEra refuses what the fronts cannot serve: header is the
// Mcp-Protocol-Version, "" for none. A message is of the stateless era when it
// or its header says so, whatever its method: that era has no initialize, and
// asks for an error it can read (-32022 with the versions we speak).
func checkEra(header string, m *mcp.Message) error {
	v := mcp.Version(header)
	if v.IsStateless() {
		return unsupported(header)
	}
	if header != "" && !v.IsSession() {
		return &mcp.Error{Code: mcp.CodeInvalidRequest,
			Message: fmt.Sprintf("the Mcp-Protocol-Version header %.32q names no version; versions spoken are %v", header, mcp.SessionVersions())}
	}
	if m == nil || !bytes.Contains(m.Params, []byte(metaVersion)) {
		return nil
	}
	// The text may stand anywhere, in an argument for example: only a version in
	// its place decides, and what is wrong with params is for the server to say.
	requested, found, err := mcp.LookupString(m.Params, "_meta", metaVersion)
	if err == nil && found && mcp.Version(requested).IsStateless() {
		return unsupported(requested)
	}
	return nil
}

// unsupported is UnsupportedProtocolVersionError (MCP 2026-07-28, basic,
// Versioning).
func unsupported(requested string) error {
	if len(requested) > 32 {
		requested = requested[:32]
	}
	data, err := json.Marshal(struct {
		Supported []mcp.Version `json:"supported"`
		Requested string        `json:"requested"`
	}{mcp.SessionVersions(), requested})
	if err != nil {
		panic(err) // strings
	}
	return &mcp.Error{Code: mcp.CodeUnsupportedVersion, Data: data,
		Message: "protocol version " + requested + " is not supported here; send initialize with one of data.supported"}
}
