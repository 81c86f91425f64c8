// Package backend sends exchanges to a tool server, of either era of the Model
// Context Protocol and over each of its transports: stdio to a process in a container
// ([NewStdio]), streamable HTTP ([NewStreamable]), or the older HTTP+SSE ([NewSSE]).
// Each is an [exchange.Backend] with the same guarantee: a request receives the server's
// own response, with the client's id, or an error with the reason why there is none.
//
// A transport (packages httpconn and stdio) connects to servers in one or both of the
// eras. [bridge] determines the eras of the server. It serves a client in the client's era
// if the server supports it, and through package translate otherwise.
//
// On a connection with sessions, and on stdio, the gateway assigns the id with which a
// request is sent, so ids of different clients cannot collide: see package correlate.
package backend
