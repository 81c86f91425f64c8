// Package correlate assigns what a server sends to the requests of clients. A
// [RequestTable] holds the requests that wait for their answers on one connection: an
// answer is assigned by its id, a progress notification by its token, and a message that
// carries neither to the sole pending request, if there is exactly one. [ServerRequests]
// holds the server's own requests until the client has answered them.
package correlate
