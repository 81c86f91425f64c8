package exchange

// ServerInfo holds the protocol versions and the Implementation that a server last
// reported. What a client receives may be a translation of these.
type ServerInfo struct {
	// Name and Version are the server's own (Implementation); "" when not reported.
	Name, Version string
	// Session and Stateless are of the two eras.
	Session, Stateless EraVersion
	// SessionTranslated and StatelessTranslated are set when clients of that era are
	// known to be served by translation.
	SessionTranslated, StatelessTranslated bool
	// Processes are those of a stdio server; zero for other servers.
	Processes Processes
}

// Processes counts the processes that a backend runs.
type Processes struct {
	// Running processes exist, at most Max. Waiting callers need one more.
	Running, Max, Waiting int
	// Busy is the reason why callers wait or are refused, "" when none are.
	Busy string
}

// EraVersion is the newest version of an era that both the server and the gateway
// support, or [EraUnsupported], or [EraUnknown]. A server is probed for an era when the
// first client of that era connects.
type EraVersion string

// The values of an EraVersion that are no version.
const (
	EraUnsupported EraVersion = "no"
	EraUnknown     EraVersion = "unknown"
)

// IsVersion reports whether the server is known to support the era.
func (v EraVersion) IsVersion() bool {
	return v != "" && v != EraUnsupported && v != EraUnknown
}
