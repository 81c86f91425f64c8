package mcp

// HTTP headers of the protocol (MCP, Transports, Streamable HTTP), in the form
// net/http keeps them in.
const (
	HeaderSessionID   = "Mcp-Session-Id"
	HeaderVersion     = "Mcp-Protocol-Version"
	HeaderLastEventID = "Last-Event-Id"
	// HeaderMethod and HeaderName mirror the body since 2026-07-28.
	HeaderMethod = "Mcp-Method"
	HeaderName   = "Mcp-Name"
	// HeaderParamPrefix begins the headers that mirror arguments of a tool
	// (x-mcp-header, since 2026-07-28).
	HeaderParamPrefix = "Mcp-Param-"
)

// Media types of the HTTP transports.
const (
	TypeJSON        = "application/json"
	TypeEventStream = "text/event-stream"
)

// Events of the HTTP+SSE transport (MCP 2024-11-05, Transports). Streamable
// HTTP uses EventMessage too.
const (
	EventMessage  = "message"
	EventEndpoint = "endpoint"
)
