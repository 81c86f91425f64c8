package wire

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// ClientMeta holds the members of _meta that describe the client in every request of the
// stateless era (MCP 2026-07-28, basic). They are JSON, with commas between them and
// without braces.
type ClientMeta []byte

// NewClientMeta returns the members for a client whose requests have none. The version is
// the client's if that is of the stateless era, and the latest of that era otherwise.
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

// OwnClient returns the client of requests that the gateway sends on its own behalf.
func OwnClient() *exchange.Client {
	return &exchange.Client{
		Version: mcp.LatestStateless, Capabilities: json.RawMessage(`{}`),
		Info: json.RawMessage(`{"name":"toolhaven","version":"1"}`),
	}
}

// Into returns params with the members in _meta, and with the log level unless it is "".
// They replace the members of the same purpose that params has.
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

// WithoutClientMeta returns params without the members of _meta that only the stateless era
// has. With them, a server that supports both eras would take a request of the session era
// for one of the stateless era.
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
	return false // for example related-task, which the session era has too
}
