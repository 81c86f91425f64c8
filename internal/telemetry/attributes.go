package telemetry

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// text is a text of a client or server, fit for an attribute.
func text(s string) string {
	if len(s) <= maxText && isPlain(s) {
		return s
	}
	return plaintext.Excerpt(s, maxText)
}

// isPlain reports whether s is printable ASCII.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// attributes adds those of the HTTP request: the names of the semantic conventions for HTTP
// and, if legacy is set, those that they had before. The query is left out: it may hold a
// session's id. A status of 0 is unknown.
func (in *incoming) attributes(attrs []attribute.KeyValue, legacy bool, status int, took time.Duration) []attribute.KeyValue {
	if in == nil {
		return attrs
	}
	host, port := address(in.host)
	client, clientPort := address(in.peer)
	full := text(in.scheme + "://" + in.host + in.path)
	attrs = append(attrs,
		attribute.String("http.request.method", in.method), attribute.String("url.scheme", in.scheme), attribute.String("url.path", text(in.path)),
		attribute.String("url.full", full), attribute.String("server.address", text(host)), attribute.String("client.address", client))
	attrs = number(attrs, "server.port", port)
	attrs = number(attrs, "client.port", clientPort)
	if in.agent != "" {
		attrs = append(attrs, attribute.String("user_agent.original", text(in.agent)))
	}
	if in.size >= 0 {
		attrs = append(attrs, attribute.Int64("http.request.body.size", in.size))
	}
	if status != 0 {
		attrs = append(attrs, attribute.Int("http.response.status_code", status))
	}
	if !legacy {
		return attrs
	}
	attrs = append(attrs,
		attribute.String("http.method", in.method), attribute.String("http.url", full), attribute.String("http.scheme", in.scheme),
		attribute.String("http.host", text(in.host)), attribute.String("http.target", text(in.path)), attribute.String("http.user_agent", text(in.agent)),
		attribute.Float64("http.duration_ms", float64(took.Microseconds())/1000))
	if in.size >= 0 {
		attrs = append(attrs, attribute.Int64("http.request_content_length", in.size))
	}
	if status != 0 {
		attrs = append(attrs, attribute.Int("http.status_code", status))
	}
	return attrs
}

func number(attrs []attribute.KeyValue, key, digits string) []attribute.KeyValue {
	if n, err := strconv.Atoi(digits); err == nil {
		attrs = append(attrs, attribute.Int(key, n))
	}
	return attrs
}

// operation adds the attributes of a request that both of its spans have (semantic
// conventions for MCP).
func operation(attrs []attribute.KeyValue, x *exchange.Exchange, o *outcome) []attribute.KeyValue {
	attrs = append(attrs, attribute.String("mcp.method.name", text(x.Request.Method)), attribute.String("jsonrpc.request.id", requestID(x.Request.ID)),
		attribute.String("mcp.protocol.version", versionLabel(x)))
	name := text(o.name)
	switch {
	case o.name == "":
	case x.Request.Method == mcp.MethodToolsCall:
		attrs = append(attrs, attribute.String("gen_ai.tool.name", name), attribute.String("gen_ai.operation.name", "execute_tool"))
	case x.Request.Method == mcp.MethodPromptsGet:
		attrs = append(attrs, attribute.String("gen_ai.prompt.name", name))
	default:
		attrs = append(attrs, attribute.String("mcp.resource.uri", text(bareURI(o.name))))
	}
	if o.errType != "" {
		attrs = append(attrs, attribute.String("error.type", o.errType))
	}
	if o.code != "" {
		attrs = append(attrs, attribute.String("rpc.response.status_code", o.code))
	}
	return attrs
}

// legacyOperation adds the names that attributes of a request had before.
func (t *Telemetry) legacyOperation(attrs []attribute.KeyValue, x *exchange.Exchange, o *outcome) []attribute.KeyValue {
	attrs = append(attrs, attribute.String("mcp.method", text(x.Request.Method)), attribute.String("rpc.system", "jsonrpc"),
		attribute.String("rpc.service", "mcp"), attribute.String("mcp.request.id", requestID(x.Request.ID)), attribute.String("mcp.transport", t.transport))
	switch {
	case o.name == "":
	case x.Request.Method == mcp.MethodToolsCall:
		attrs = append(attrs, attribute.String("mcp.tool.name", text(o.name)), attribute.String("mcp.resource.id", text(o.name)))
	case x.Request.Method == mcp.MethodPromptsGet:
		attrs = append(attrs, attribute.String("mcp.prompt.name", text(o.name)), attribute.String("mcp.resource.id", text(o.name)))
	default:
		attrs = append(attrs, attribute.String("mcp.resource.id", text(bareURI(o.name))))
	}
	return attrs
}

// requestID is an id as JSON-RPC means it: a string without its quotes.
func requestID(id mcp.ID) string { return text(strings.Trim(id.String(), `"`)) }

// bareURI is a URI without what may be a credential: user information, query and fragment.
func bareURI(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		uri, _, _ = strings.Cut(uri, "?")
		return uri
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
	return u.String()
}

// serverConnection describes the connection to a server of that transport.
func serverConnection(transport string) []attribute.KeyValue {
	if transport == "stdio" {
		return []attribute.KeyValue{attribute.String("network.transport", "pipe")}
	}
	return []attribute.KeyValue{attribute.String("network.transport", "tcp"), attribute.String("network.protocol.name", "http")}
}
