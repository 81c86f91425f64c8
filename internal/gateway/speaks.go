package gateway

// Speaks is what a server speaks itself, and who it says it is, in its last words on
// these. What a client is told of its connection may be a translation.
type Speaks struct {
	// Name and Version are the server's own (Implementation); "" when it has not said.
	Name, Version string
	// Session and Stateless are of the two eras.
	Session, Stateless Speech
	// SessionTranslated and StatelessTranslated say that clients of that era are
	// served by translation, as far as that is known.
	SessionTranslated, StatelessTranslated bool
}

// Speech is the newest version of an era that a server speaks and we do, SpeechNo, or
// SpeechUnknown. A server is asked about an era when a client of it first comes.
type Speech string

// The values of a Speech that are no version.
const (
	SpeechNo      Speech = "no"
	SpeechUnknown Speech = "unknown"
)

// IsVersion reports whether the server is known to speak the era.
func (s Speech) IsVersion() bool { return s != "" && s != SpeechNo && s != SpeechUnknown }

// Speaker is a [Backend] that tells what it has found out about its server.
type Speaker interface {
	// Speaks asks nobody and never waits.
	Speaks() Speaks
}
