// Package backend plays exchanges out on a tool server. Each of its backends
// speaks one transport of the Model Context Protocol: stdio to a process in a
// container, streamable HTTP, or the older HTTP+SSE. All of them are a
// [gateway.Backend], and what they promise is the same: a request gets the
// server's own answer, with the client's id, or an error that says why there is
// none.
//
// Toward the server every request has an id of the connection's own, so ids of
// different clients cannot collide. The table of those requests ([inflight])
// also decides to whom a message of the server belongs that says nothing about
// it; [questions] puts the server's own requests to clients.
package backend
