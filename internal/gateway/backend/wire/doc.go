// Package wire holds what the transports of the backend and the translation between the
// eras share: errors, the handshake of the session era, the _meta of the stateless era,
// the detection of a server's era, subscription filters, and the peer of a pending request
// ([CallPeer]). It imports none of the backend's other packages.
package wire
