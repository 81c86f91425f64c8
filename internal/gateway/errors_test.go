package gateway

import "github.com/toolhaven/toolhaven/internal/mcp"

// Texts that clients and servers receive.
var (
	errAbandoned   = &mcp.Error{Code: mcp.CodeServerGone, Message: "the client did not send the answers in time"}
	errCancelled   = &mcp.Error{Code: mcp.CodeServerGone, Message: "the client cancelled the request"}
	errDeleted     = &mcp.Error{Code: mcp.CodeServerGone, Message: "the client ended the session"}
	errInFlight    = &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "a request with this id is in flight already"}
	errInitialized = &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "the session is initialized already"}
	errServerLost  = &mcp.Error{Code: mcp.CodeServerGone, Message: "the server ended; initialize a new session"}
)
