// Package backend sends exchanges to a tool server, of either era of the Model
// Context Protocol and over each of its transports: stdio to a process in a container
// ([NewStdio]), streamable HTTP ([NewStreamable]), or the older HTTP+SSE ([NewSSE]).
// Each is an [exchange.Backend] with the same guarantee: a request gets the server's own
// answer, with the client's id, or an error that gives the reason why there is none.
//
// A transport (packages httpconn and stdio) connects to servers in one or both of the
// eras. [bridge] probes the server for its eras and serves a client in its own era where
// the server supports it, and through package translate where it does not.
//
// On a connection with sessions, and on stdio, every request has an id of the
// connection's own, so ids of different clients cannot collide: see package correlate.
package backend
