package httpconn

import (
	"net/http"
	"strings"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// maxNameHeader bounds the bytes of Mcp-Name; common servers take 16 KiB of
// headers at most.
const maxNameHeader = 12 << 10

// standardHeaders is what a request of the stateless era repeats of its body in
// headers (MCP 2026-07-28, Streamable HTTP, Standard Headers). The header is the
// caller's. The error is an *mcp.Error for params that cannot be understood.
func standardHeaders(x *exchange.Exchange) (http.Header, error) {
	method, params := x.Request.Method, x.Request.Params
	version, found, err := mcp.LookupString(params, "_meta", mcp.MetaVersion)
	if err != nil {
		return nil, err
	}
	if !found {
		version = string(mcp.LatestStateless)
	}
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
	if found { // what is wrong without it is for the server to say
		name = mcp.EncodeHeader(name)
		if len(name) > maxNameHeader {
			return nil, &mcp.Error{Code: mcp.CodeInvalidParams,
				Message: "params." + mcp.MirroredName(method) + " is too long for the " + mcp.HeaderName + " header"}
		}
		h[mcp.HeaderName] = []string{name}
	}
	return h, nil
}
