// Package backend plays exchanges out on a tool server, of either era of the Model
// Context Protocol and over each of its transports: stdio to a process in a container
// ([NewStdio]), streamable HTTP ([NewStreamable]), or the older HTTP+SSE ([NewSSE]).
// All of them are a [exchange.Backend], and what they promise is the same: a request
// gets the server's own answer, with the client's id, or an error that says why there
// is none.
//
// A transport is a way to servers of one era: [sessions] or [modern]. [bridge] finds out
// which of them a server is for, and translates for the clients of the other
// ([sessionClients], [modernClients]).
//
// Toward a server with sessions, and one on stdio, every request has an id of the
// connection's own, so ids of different clients cannot collide. The table of those
// requests ([inflight]) also decides to whom a message of the server belongs that says
// nothing about it; [questions] puts the server's own requests to clients.
package backend
