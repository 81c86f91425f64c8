// Package httpconn connects to remote servers: [Streamable] in the session era (MCP,
// Transports, Streamable HTTP), [Stateless] in the stateless era (MCP 2026-07-28), and
// [SSE] over the older HTTP+SSE transport (MCP 2024-11-05). [Detect] determines the
// transport of a URL.
//
// A credential is sent to the server's own origin only: redirects elsewhere are not
// followed, and neither is an endpoint of another origin.
package httpconn
