package httpd

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// EraHints determine the era of a message, whatever its method is (MCP 2026-07-28,
// Versioning).
type EraHints struct {
	Header string   // Mcp-Protocol-Version, in both eras; "" for none
	Meta   mcp.Meta // has a version in the stateless era only
	// MetaErr is why Meta could not be read. It does not determine the era.
	MetaErr error
}

// ReadEra reads the hints of m, which may be nil. The Meta of a message of the session era
// is not always read. The error is an *mcp.Error.
func ReadEra(r *http.Request, m *mcp.Message) (EraHints, error) {
	values := r.Header[mcp.HeaderVersion]
	if len(values) > 1 {
		return EraHints{}, &mcp.Error{Code: mcp.CodeHeaderMismatch, Message: "the " + mcp.HeaderVersion + " header occurs twice"}
	}
	var h EraHints
	if len(values) == 1 {
		h.Header = values[0]
	}
	if m == nil || !mcp.Version(h.Header).IsStateless() && !mcp.Mentions(m.Params, "protocolVersion") {
		return h, nil
	}
	// The text can be anywhere, for example in an argument; only _meta counts.
	h.Meta, h.MetaErr = mcp.ReadMeta(m.Params)
	return h, nil
}

// IsStateless reports whether the message is of the stateless era.
func (h EraHints) IsStateless() bool {
	return mcp.Version(h.Header).IsStateless() || h.Meta.Versioned && !mcp.Version(h.Meta.Version).IsSession()
}

// Check refuses an unknown version of a message of the session era.
func (h EraHints) Check() error {
	if h.Header != "" && !mcp.Version(h.Header).IsSession() {
		return &mcp.Error{Code: mcp.CodeInvalidRequest,
			Message: fmt.Sprintf("the Mcp-Protocol-Version header %.32q is not a known version; supported versions are %v", h.Header, mcp.Versions())}
	}
	return nil
}

// SessionEraOnly refuses a message of the stateless era, with the error that its clients
// expect. m may be nil.
func SessionEraOnly(r *http.Request, m *mcp.Message) error {
	h, err := ReadEra(r, m)
	if err != nil {
		return err
	}
	if h.IsStateless() {
		requested := h.Header
		if h.Meta.Versioned {
			requested = h.Meta.Version
		}
		return Unsupported(requested, mcp.SessionVersions())
	}
	return h.Check()
}

// Unsupported is UnsupportedProtocolVersionError (MCP 2026-07-28, basic, Versioning).
func Unsupported(requested string, supported []mcp.Version) error {
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
		Message: fmt.Sprintf("protocol version %q is not supported; use one of data.supported", requested)}
}
