// Package wire has what the transports of the backend and the translation between the
// eras share: errors, the handshake of the session era, the _meta of the stateless era,
// the signs of a server's era, the filters of subscriptions, and the way back to a client
// ([CallPeer]). It imports none of the backend's other packages.
package wire
