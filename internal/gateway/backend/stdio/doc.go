// Package stdio runs the processes of a server that exchanges newline-delimited JSON-RPC on
// its standard input and output (MCP, Transports, stdio). A [Pool] bounds their number,
// assigns sessions and exchanges to them, and ends those that are not used.
package stdio
