package wire

import (
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
)

// Bounds that the transports and the translation share.
const (
	// ProbeTimeout bounds the wait for the response to a server/discover that precedes
	// initialize. A server of the session era may never respond to it.
	ProbeTimeout = 5 * time.Second
	// FarewellTimeout bounds short messages that must not delay the gateway, such as a
	// cancellation notification or the DELETE of a session.
	FarewellTimeout = 5 * time.Second
	// ListenTimeout bounds how long Listen waits for the server to accept the session's
	// stream, so that a listening client misses no message. An HTTP server that was slow
	// to begin the session has more time.
	ListenTimeout = 250 * time.Millisecond
	// AbandonTimeout is how long a shared connection waits for the response to a
	// cancelled request.
	AbandonTimeout = time.Minute
	// MaxServerRequests bounds the requests of one server that wait for a client's
	// response. The fronts have the same bound.
	MaxServerRequests = exchange.MaxQuestions
)
