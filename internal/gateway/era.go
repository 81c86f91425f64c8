package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// marks are how a message says of which era it is: "" for what it does not say.
// Only they decide, and never the method (MCP 2026-07-28, Versioning).
type marks struct {
	header string // Mcp-Protocol-Version, which the session era has too
	meta   string // params._meta's version, which it has not
	// declared: params._meta has a version, whatever it is.
	declared bool
}

// marksOf reads them. The error is an *mcp.Error. m may be nil.
func marksOf(r *http.Request, m *mcp.Message) (marks, error) {
	values := r.Header[mcp.HeaderVersion]
	if len(values) > 1 {
		return marks{}, &mcp.Error{Code: mcp.CodeHeaderMismatch, Message: "the " + mcp.HeaderVersion + " header is there twice"}
	}
	var k marks
	if len(values) == 1 {
		k.header = values[0]
	}
	if m == nil || !mcp.Mentions(m.Params, "protocolVersion") {
		return k, nil
	}
	// The text may stand anywhere, in an argument for example: only a version in
	// its place decides.
	// What is wrong with the params of a session's request is for the server to
	// say; those of a stateless one are read again.
	if raw, found, err := mcp.Lookup(m.Params, "_meta", mcp.MetaVersion); err == nil && found {
		k.declared = true
		_ = json.Unmarshal(raw, &k.meta) // what is no text is no version
	}
	return k, nil
}

// stateless reports whether the message is of the stateless era.
func (k marks) stateless() bool {
	return mcp.Version(k.header).IsStateless() || k.declared && !mcp.Version(k.meta).IsSession()
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
		if k.declared {
			requested = k.meta
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
