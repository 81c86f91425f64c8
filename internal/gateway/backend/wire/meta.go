package wire

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// ClientMeta is what every request of the stateless era says of its client, as
// members of _meta (MCP 2026-07-28, basic).
type ClientMeta []byte

// NewClientMeta writes the members for a client whose requests have none. The version is
// the client's where that is of the stateless era.
func NewClientMeta(client *exchange.Client) ClientMeta {
	capabilities, info := client.Capabilities, client.Info
	if len(capabilities) == 0 {
		capabilities = json.RawMessage(`{}`)
	}
	version := mcp.LatestStateless
	if slices.Contains(mcp.StatelessVersions(), client.Version) {
		version = client.Version
	}
	out := []byte(`"` + mcp.MetaVersion + `":"` + string(version) + `","` + mcp.MetaCapabilities + `":`)
	out = append(out, capabilities...)
	if len(info) > 0 && !bytes.Equal(info, []byte(`{}`)) {
		out = append(append(out, `,"`+mcp.MetaClientInfo+`":`...), info...)
	}
	return out
}

// OwnClient is the client that asks on nobody's behalf.
func OwnClient() *exchange.Client {
	return &exchange.Client{
		Version: mcp.LatestStateless, Capabilities: json.RawMessage(`{}`),
		Info: json.RawMessage(`{"name":"toolhaven","version":"1"}`),
	}
}

// Into returns params with the introduction, and the log level if there is one,
// in place of whatever else claims to be such.
func (in ClientMeta) Into(params json.RawMessage, logLevel string) (json.RawMessage, error) {
	params, err := WithoutClientMeta(params)
	if err != nil {
		return nil, err
	}
	members := []byte(in)
	if logLevel != "" {
		members = append(bytes.Clone(members), `,"`+mcp.MetaLogLevel+`":"`+logLevel+`"`...)
	}
	return mcp.Insert(params, members, "_meta")
}

// WithoutClientMeta returns params without what the stateless era puts into _meta:
// a server of the session era that also speaks the other would take it for that.
func WithoutClientMeta(params json.RawMessage) (json.RawMessage, error) {
	if !mcp.Mentions(params, mcp.MetaPrefix) {
		return params, nil
	}
	return mcp.Without(params, isReserved, "_meta")
}

func isReserved(key string) bool {
	switch key {
	case mcp.MetaVersion, mcp.MetaCapabilities, mcp.MetaClientInfo, mcp.MetaLogLevel:
		return true
	}
	return false // such as related-task, which the session era has too
}
