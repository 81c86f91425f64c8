// Package paramheader handles the Mcp-Param-* headers (MCP 2026-07-28, Streamable HTTP,
// Custom Headers from Tool Parameters): it reads which arguments a tool's schema puts into
// headers, mirrors them for a server, and checks those of a client.
package paramheader
