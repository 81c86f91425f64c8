// Package stdio runs the processes of a server that speaks newline-delimited JSON-RPC on
// its standard input and output (MCP, Transports, stdio). A [Pool] bounds the processes,
// decides which sessions and exchanges share one, and ends those that are not used.
package stdio
