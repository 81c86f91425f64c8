package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// marks determine the era of a message, whatever its method is (MCP 2026-07-28,
// Versioning).
type marks struct {
	header string   // Mcp-Protocol-Version, in both eras; "" for none
	meta   mcp.Meta // has a version in the stateless era only
	// metaErr is why meta could not be read. It does not determine the era.
	metaErr error
}

// marksOf reads them. The error is an *mcp.Error. m may be nil. The meta of a message
// of the session era is not always read.
func marksOf(r *http.Request, m *mcp.Message) (marks, error) {
	values := r.Header[mcp.HeaderVersion]
	if len(values) > 1 {
		return marks{}, &mcp.Error{Code: mcp.CodeHeaderMismatch, Message: "the " + mcp.HeaderVersion + " header is there twice"}
	}
	var k marks
	if len(values) == 1 {
		k.header = values[0]
	}
	if m == nil || !mcp.Version(k.header).IsStateless() && !mcp.Mentions(m.Params, "protocolVersion") {
		return k, nil
	}
	// The text can be anywhere, for example in an argument; only _meta counts.
	k.meta, k.metaErr = mcp.ReadMeta(m.Params)
	return k, nil
}

// stateless reports whether the message is of the stateless era.
func (k marks) stateless() bool {
	return mcp.Version(k.header).IsStateless() || k.meta.Versioned && !mcp.Version(k.meta.Version).IsSession()
}

// check refuses a version that no front knows. It is for messages of the session
// era.
func (k marks) check() error {
	if k.header != "" && !mcp.Version(k.header).IsSession() {
		return &mcp.Error{Code: mcp.CodeInvalidRequest,
			Message: fmt.Sprintf("the Mcp-Protocol-Version header %.32q names no version; versions spoken are %v", k.header, mcp.Versions())}
	}
	return nil
}

// sessionOnly refuses a message of the stateless era where there are only
// sessions, in the way that such a client understands.
func sessionOnly(r *http.Request, m *mcp.Message) error {
	k, err := marksOf(r, m)
	if err != nil {
		return err
	}
	if k.stateless() {
		requested := k.header
		if k.meta.Versioned {
			requested = k.meta.Version
		}
		return unsupported(requested, mcp.SessionVersions())
	}
	return k.check()
}

// unsupported is UnsupportedProtocolVersionError (MCP 2026-07-28, basic,
// Versioning).
func unsupported(requested string, supported []mcp.Version) error {
	if len(requested) > 32 {
		requested = requested[:32]
	}
	data, err := json.Marshal(struct {
		Supported []mcp.Version `json:"supported"`
		Requested string        `json:"requested"`
	}{supported, requested})
	if err != nil {
		panic(err) // strings
	}
	return &mcp.Error{Code: mcp.CodeUnsupportedVersion, Data: data,
		Message: fmt.Sprintf("protocol version %q is not supported here; use one of data.supported", requested)}
}
