package stateless

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// identify reads the client of a message and checks the protocol version, in the header and
// the body (MCP 2026-07-28, basic/transports/streamable-http, Protocol Version Header). The
// error is an *mcp.Error.
func identify(r *http.Request, m *mcp.Message, h httpd.EraHints) (*exchange.Client, error) {
	err := h.MetaErr
	if err == nil {
		err = h.Meta.Check()
	}
	switch {
	case err != nil:
		return nil, err
	case h.Header == "":
		return nil, mismatch("the %s header is missing; it must repeat _meta's %s", mcp.HeaderVersion, mcp.MetaVersion)
	case h.Meta.Versioned && h.Meta.Version != h.Header:
		return nil, mismatch("the %s header is %.32q, and _meta's %s %.32q", mcp.HeaderVersion, h.Header, mcp.MetaVersion, h.Meta.Version)
	case !slices.Contains(mcp.StatelessVersions(), mcp.Version(h.Header)):
		return nil, httpd.Unsupported(h.Header, mcp.Versions())
	case !h.Meta.Versioned && m.Kind() == mcp.Request:
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params._meta needs " + mcp.MetaVersion}
	case h.Meta.Capabilities == nil && m.Kind() == mcp.Request:
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params._meta needs " + mcp.MetaCapabilities}
	}
	client := &exchange.Client{
		Principal: httpd.Principal(r), Version: mcp.Version(h.Header),
		Capabilities: h.Meta.Capabilities, Info: h.Meta.ClientInfo,
	}
	if err := httpd.CheckDeclaration(client.Capabilities, "_meta's "+mcp.MetaCapabilities); err != nil {
		return nil, err
	}
	if err := httpd.CheckDeclaration(client.Info, "_meta's "+mcp.MetaClientInfo); err != nil {
		return nil, err
	}
	return client, nil
}

// checkHeaders compares Mcp-Method and Mcp-Name with the body, as every reader of the body
// must (same page, Standard Headers). Mcp-Param-* depend on the tool's schema; the backend
// or the server compares them. The error is an *mcp.Error.
func checkHeaders(r *http.Request, m *mcp.Message) error {
	method, err := singleHeader(r, mcp.HeaderMethod)
	if err != nil {
		return err
	}
	if method != m.Method {
		return mismatch("the %s header is %.64q, and the method %.64q", mcp.HeaderMethod, method, m.Method)
	}
	member := mcp.MirroredName(m.Method)
	if member == "" {
		return nil
	}
	want, found, err := mcp.LookupName(m.Method, m.Params)
	if err != nil || !found {
		return err // the server refuses params without it
	}
	name, err := singleHeader(r, mcp.HeaderName)
	if err != nil {
		return err
	}
	if name != want {
		return mismatch("the %s header is %.64q, and params.%s %.64q", mcp.HeaderName, name, member, want)
	}
	return nil
}

// singleHeader is the decoded value of a header that must occur once.
func singleHeader(r *http.Request, header string) (string, error) {
	values := r.Header[header]
	if len(values) != 1 || values[0] == "" {
		return "", mismatch("the %s header must occur once", header)
	}
	value, ok := mcp.DecodeHeader(values[0])
	if !ok {
		return "", mismatch("the %s header is not encoded correctly", header)
	}
	return value, nil
}

func mismatch(format string, args ...any) error {
	return &mcp.Error{Code: mcp.CodeHeaderMismatch, Message: fmt.Sprintf(format, args...)}
}

// paramHeaders are the Mcp-Param-* headers. All of them are forwarded unchanged (same page,
// Intermediaries).
func paramHeaders(h http.Header) http.Header {
	var out http.Header
	for name, values := range h {
		if strings.HasPrefix(name, mcp.HeaderParamPrefix) {
			if out == nil {
				out = http.Header{}
			}
			out[name] = values
		}
	}
	return out
}
