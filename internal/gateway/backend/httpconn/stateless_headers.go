package httpconn

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// maxNameHeader bounds the Mcp-Name header, in bytes; common servers accept at most 16 KiB
// of headers.
const maxNameHeader = 12 << 10

// standardHeaders returns the headers in which a request of the stateless era repeats parts
// of its body (MCP 2026-07-28, Streamable HTTP, Standard Headers), with the Mcp-Param-*
// headers of x. The gateway's own requests have the latest version in their _meta, and no
// x.Meta. The caller owns the result. The error is an *mcp.Error for params that
// cannot be parsed.
func standardHeaders(x *exchange.Exchange) (http.Header, error) {
	method, params := x.Request.Method, x.Request.Params
	version := cmp.Or(x.Meta.Version, string(mcp.LatestStateless))
	h := make(http.Header, 6+len(x.Headers))
	for key, values := range x.Headers {
		if strings.HasPrefix(key, mcp.HeaderParamPrefix) {
			h[key] = values
		}
	}
	h[mcp.HeaderVersion] = []string{mcp.EncodeHeader(version)}
	h[mcp.HeaderMethod] = []string{mcp.EncodeHeader(method)}
	name, found, err := mcp.LookupName(method, params)
	if err != nil {
		return nil, err
	}
	if found { // otherwise the server rejects the request
		name = mcp.EncodeHeader(name)
		if len(name) > maxNameHeader {
			return nil, &mcp.Error{Code: mcp.CodeInvalidParams,
				Message: "params." + mcp.MirroredName(method) + " is too long for the " + mcp.HeaderName + " header"}
		}
		h[mcp.HeaderName] = []string{name}
	}
	return h, nil
}
