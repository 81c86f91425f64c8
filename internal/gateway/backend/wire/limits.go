package wire

import (
	"time"
)

// Bounds on what is done for a server without a client waiting.
const (
	// FarewellTimeout bounds a cancellation notice and the DELETE of a session.
	FarewellTimeout = 5 * time.Second
	// ListenTimeout is how long Listen waits at least for the server to accept the stream
	// of the session, so that nothing is lost that it sends to a client that listens.
	ListenTimeout = 250 * time.Millisecond
	// AbandonTimeout is how long the answer to a cancelled request is still expected.
	AbandonTimeout = time.Minute
	// MaxServerRequests bounds the requests of one server that wait for a client's answer.
	MaxServerRequests = 64
	// MaxWatched bounds the resources that all clients of a principal watch at a server.
	MaxWatched = 1024
)
