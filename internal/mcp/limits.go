package mcp

// Limits of input from outside, in bytes unless stated otherwise.
const (
	// MaxBody bounds the body of an HTTP request.
	MaxBody = 8 << 20
	// MaxEvent bounds one server-sent event, one line of a stdio server and the
	// JSON body of an HTTP response.
	MaxEvent = 16 << 20
	// MaxHeader bounds the header block of an HTTP request or response.
	MaxHeader = 32 << 10
	// MaxDepth bounds the nesting of arrays and objects in one message.
	// The schemas of the protocol stay far below it, and the JSON readers of the
	// SDKs accept it.
	MaxDepth = 512
	// MaxBatch bounds the messages in one batch (MCP 2025-03-26 only).
	MaxBatch = 100
)
