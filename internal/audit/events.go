package audit

import (
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// Refusal is a request of HTTP that was refused before it was read, such as one without a
// valid access token. It has nothing of the token.
type Refusal struct {
	Source       exchange.Source
	Method, Path string // of HTTP
	Status       int
	// Code is an error of RFC 6750 section 3.1, "" for a request without a credential.
	Code, Description string
}

// Records of refusals per second, and at once. Every client can cause them, and they must not
// make the log rename its file until the records of other requests are gone.
const (
	refusalRate  rate.Limit = 10
	refusalBurst int        = 100
)

// Records of connections per second, and at once. The server can cause them.
const (
	connectionRate  rate.Limit = 50
	connectionBurst int        = 500
)

// Refused records a refused request. When there are too many, the next record has the number
// of those without one.
func (r *Recorder) Refused(f Refusal) {
	if !r.cfg.records(refusedRequest) {
		return
	}
	r.mu.Lock()
	if !r.refusals.Allow() {
		r.suppressed++
		r.mu.Unlock()
		return
	}
	suppressed := r.suppressed
	r.suppressed = 0
	r.mu.Unlock()

	extra := []any{slog.Int("http_status", f.Status), optional("error", f.Code), optional("error_description", f.Description)}
	if suppressed > 0 {
		extra = append(extra, slog.Int("suppressed_records", suppressed))
	}
	now := time.Now()
	r.log.Append(format(now, refusedRequest, denied, append(r.head(refusedRequest, now, denied), network(f.Source),
		slog.Group("subjects", slog.String("user", anonymous)),
		slog.Group("target", slog.String("method", plaintext.Excerpt(f.Method, 64)), slog.String("endpoint", plaintext.Excerpt(f.Path, maxShown))),
		slog.Group("metadata", slog.Group("extra", extra...)))))
}

// Connection is a connection of a server whose network is isolated, when it has ended, or
// one that was refused.
type Connection struct {
	Kind          string // tcp, http, dns, udp or icmp
	Name, Address string // each may be ""
	Port          int
	Allowed       bool
	Reason        string // of a refusal or failure
	// Sent and Received are bytes from and to the server.
	Sent, Received int64
}

// Connected records a connection. When there are too many, the next record has the number
// of those without one.
func (r *Recorder) Connected(c Connection) {
	if !r.cfg.records(networkConnection) {
		return
	}
	r.mu.Lock()
	if !r.connections.Allow() {
		r.unrecorded++
		r.mu.Unlock()
		return
	}
	unrecorded := r.unrecorded
	r.unrecorded = 0
	r.mu.Unlock()

	outcome := denied
	switch {
	case c.Allowed && c.Reason == "":
		outcome = success
	case c.Allowed:
		outcome = gatewayError
	}
	extra := []any{optional("reason", c.Reason), slog.Int64("sent_bytes", c.Sent), slog.Int64("received_bytes", c.Received)}
	if unrecorded > 0 {
		extra = append(extra, slog.Int("suppressed_records", unrecorded))
	}
	now := time.Now()
	r.log.Append(format(now, networkConnection, outcome, append(r.head(networkConnection, now, outcome),
		slog.Group("source", slog.String("type", "server")),
		slog.Group("target", slog.String("type", c.Kind), optional("name", plaintext.Excerpt(c.Name, maxShown)), optional("address", c.Address), slog.Int("port", c.Port)),
		slog.Group("metadata", slog.Group("extra", extra...)))))
}

// ToolChanged records that a tool of the server is not as it is remembered. Hidden reports
// that clients do not see it until it is accepted.
func (r *Recorder) ToolChanged(tool, change string, hidden bool) {
	if !r.cfg.records(toolChange) {
		return
	}
	outcome := success
	if hidden {
		outcome = denied
	}
	now := time.Now()
	r.log.Append(format(now, toolChange, outcome, append(r.head(toolChange, now, outcome),
		slog.Group("source", slog.String("type", "server")),
		slog.Group("target", slog.String("name", plaintext.Excerpt(tool, maxShown)), slog.String("type", "tool")),
		slog.Group("metadata", slog.Group("extra", slog.String("change", plaintext.Excerpt(change, maxShown)))))))
}

// LimitExceeded records that the server was stopped because it used more of a resource than it
// may, in bytes.
func (r *Recorder) LimitExceeded(resource string, used, limit int64) {
	if !r.cfg.records(exceededLimit) {
		return
	}
	now := time.Now()
	r.log.Append(format(now, exceededLimit, denied, append(r.head(exceededLimit, now, denied),
		slog.Group("source", slog.String("type", "server")),
		slog.Group("target", slog.String("type", resource)),
		slog.Group("metadata", slog.Group("extra", slog.Int64("used_bytes", used), slog.Int64("limit_bytes", limit))))))
}
