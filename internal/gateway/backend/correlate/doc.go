// Package correlate assigns what a server sends to the requests of clients. A
// [RequestTable] holds the pending requests of one connection: a response is assigned by
// its id, a progress notification by its token, and a message that carries neither to the
// sole pending request, if there is exactly one. [ServerRequests] holds the server's own
// requests until the client has responded to them.
package correlate
