// Package gateway puts an MCP server on the local network: it turns a client's
// wire into an [exchange.Exchange], passes it through the stages, and plays it out on a
// [exchange.Backend].
//
// A front is the part that knows a client's transport. Which era of the protocol a
// message is of, its own marks say: era.go.
//
// In the session era the fronts are streamable HTTP (MCP 2025-11-25, basic/transports,
// also for 2025-06-18 and 2025-03-26) and HTTP+SSE (MCP 2024-11-05). They keep a session
// per client: the client's declarations, one [exchange.Conn], the calls in flight, the questions
// that wait for an answer, and the stream for what belongs to no call. A session belongs
// to the principal who began it, and to who knows its id; nothing of it is reachable
// from another one. The id is sealed ([Config.Key]) and says what it takes to continue
// the session, so a gateway that starts anew does, as long as the server knows it:
// ticket.go. A client that disconnects has not cancelled anything ("Disconnection"): its
// call goes on. The events of a session's streams have ids, and the newest are kept, so
// that the client can come back for the answer with Last-Event-ID: channel.go. Plain
// JSON that nobody takes is gone.
//
// In the stateless era (MCP 2026-07-28) every POST stands alone, and closing it cancels
// it: modern.go. All that is kept between two is a call that waits for its client to
// answer what the server asks: modern_call.go.
//
// Every request is answered with the server's own response or with an error
// that says what failed.
package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/seal"
)

// DefaultSessionTTL is how long a session lives without any activity.
const DefaultSessionTTL = 2 * time.Hour

// Config is what a gateway works with.
type Config struct {
	Backend exchange.Backend
	// Name is the workload's, for /health and the log.
	Name string
	// Version is Toolhaven's own, for /health; "" leaves it out.
	Version string
	// Endpoint is how the gateway is served. A prefix may end in a slash; a
	// SessionTTL of 0 is DefaultSessionTTL.
	Endpoint endpoint.Config
	// TrustProxyHeaders: every request comes through a reverse proxy of ours that
	// sets X-Forwarded-Host and X-Forwarded-Prefix.
	TrustProxyHeaders bool
	// Key seals what clients keep for us, such as session ids (seal.KeySize bytes). A
	// gateway with the same key and name continues the sessions of one before it, if
	// their servers still know them; nil is a random key, with which sessions end with
	// the gateway.
	Key []byte
	// Status tells the workload's state ("running" when all is well) and the
	// reason for any other; nil means always running. It may be called often.
	Status func() (state, reason string)
	// Log receives what went wrong; nil discards it.
	Log *slog.Logger
}

// pace is when a gateway does what by itself. Tests make it quicker.
type pace struct {
	quiet     time.Duration // a POST without output for so long becomes an event stream
	keepAlive time.Duration // between comments on an open stream
	write     time.Duration // how long a client may take to read what was written
	readBody  time.Duration // how long a client may take to send a body
	askGrace  time.Duration // how long a session's question waits for a stream
	comeBack  time.Duration // how long a question waits for a client that lost its stream
	settle    time.Duration // how long calls that were cut off may take to notice
	gather    time.Duration // how long further questions of a call are waited for
	parked    time.Duration // how long a call waits for its client's answers
	room      time.Duration // how long an answer waits for room to be kept in
	notice    time.Duration // how long a server may take to take a notification
}

// Proxies cut connections that are idle for 30 to 60 seconds.
func defaultPace() pace {
	return pace{
		quiet:     10 * time.Second,
		keepAlive: 20 * time.Second,
		write:     60 * time.Second,
		readBody:  30 * time.Second,
		askGrace:  10 * time.Second,
		comeBack:  60 * time.Second,
		settle:    2 * time.Second,
		gather:    25 * time.Millisecond,
		parked:    15 * time.Minute, // a person may be asked
		room:      5 * time.Second,
		notice:    30 * time.Second,
	}
}

// Gateway serves one workload's clients. It is an http.Handler for the whole
// host: mount it as it is, not behind a mux.
type Gateway struct {
	cfg     Config
	log     *slog.Logger
	pace    pace
	http    http.Handler     // the stages that look at HTTP, then the front
	handler exchange.Handler // the stages that look at exchanges, then the backend
	buffers *buffers

	sessions   table
	shared     shared
	sealer     *seal.Sealer // of session ids and requestStates
	used       usedOnce
	parked     parkedCalls
	inbound    memory  // for what clients send
	outbound   memory  // for what they have not read yet
	backlogs   memory  // for notifications that they have not come for yet
	asked      memory  // for what they have not answered yet
	declared   memory  // for what they say of themselves
	issuer     [8]byte // tells the ids that we gave from those before us
	reviving   singleflight.Group
	goroutines goroutines // for calls of the stateless era
	// calls counts the exchanges under way; closers the connections that are
	// being closed behind a client's back.
	calls, closers tally

	draining context.Context // ends when the gateway takes no new requests
	drain    context.CancelFunc

	ctx   context.Context // ends when the gateway cuts off what is left
	cut   context.CancelCauseFunc
	sweep sync.WaitGroup
}

// New builds a gateway and puts its stages in order. This is the only place
// that knows the order; later stages go where their name stands:
//
//	patience             patience.go
//	recover              a panic is the error of the one request that met it
//	host/origin guard    guard.go
//	limits               limits.go
//	(telemetry)
//	(authenticate)
//	parse MCP            the fronts: streamable.go, sse.go
//	proper names         names.go
//	(audit)
//	(tool name)          filter and override
//	(authorize)
//	(webhooks)
//	session/bridge       the fronts choose the connection; deliver
//	(credential)         a http.RoundTripper of the backend
//	backend              package gateway/backend
//
// What stands before "parse MCP" looks at HTTP requests, what stands after it
// is a [exchange.Stage]. A stage that is not configured is not in the chain.
//
// Errors are faults of the configuration, all of them at once.
func New(cfg Config) (*Gateway, error) {
	cfg, err := complete(cfg)
	key := cfg.Key
	if key == nil {
		key = seal.NewKey()
	}
	sealer, sealErr := seal.New(key)
	if err := errors.Join(err, sealErr); err != nil {
		return nil, fmt.Errorf("configure the gateway of %q: %w", cfg.Name, err)
	}
	guard := newGuard(cfg.Endpoint.AllowedHosts)
	guard.trustForwarded = cfg.TrustProxyHeaders
	g := &Gateway{
		cfg: cfg, log: cfg.Log, pace: defaultPace(), buffers: newBuffers(), goroutines: newGoroutines(),
		sealer: sealer, used: usedOnce{maxGeneration: maxUsed, floor: time.Now().UnixMicro()},
	}
	g.inbound.max, g.outbound.max, g.backlogs.max = maxInbound, maxOutbound, maxBacklogs
	g.asked.max, g.declared.max = maxAsked, maxDeclared
	g.parked.max = maxWaiting
	g.draining, g.drain = context.WithCancel(context.Background())
	rand.Read(g.issuer[:]) // never fails
	g.ctx, g.cut = context.WithCancelCause(context.Background())
	g.sessions.init(maxSessions)

	front := g.streamable
	if cfg.Endpoint.Mode == endpoint.SSE {
		front = g.sse
	}
	g.http = g.patient(guard.wrap(g.routes(front)))
	g.handler = chain(exchange.Deliver, g.recovered, properNames)

	cfg.Backend.SetEvictor(g.parked.makeRoom)
	g.sweep.Go(g.sweeper)
	return g, nil
}

// chain puts stages around last, the first one outermost.
func chain(last exchange.Handler, stages ...exchange.Stage) exchange.Handler {
	for i := len(stages) - 1; i >= 0; i-- {
		last = stages[i](last)
	}
	return last
}

// complete fills defaults in and checks the rest.
func complete(cfg Config) (Config, error) {
	var faults []error
	if cfg.Backend == nil {
		faults = append(faults, errors.New("there is no backend"))
	}
	if err := cfg.Endpoint.Validate(); err != nil {
		faults = append(faults, err)
	}
	if cfg.Endpoint.SessionTTL == 0 {
		cfg.Endpoint.SessionTTL = DefaultSessionTTL
	}
	cfg.Endpoint.Prefix = strings.TrimRight(cfg.Endpoint.Prefix, "/")
	if cfg.Status == nil {
		cfg.Status = func() (string, string) { return "running", "" }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return cfg, errors.Join(faults...)
}

// ServeHTTP serves every path of the host.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.http.ServeHTTP(w, r) }

// Sessions is the number of open sessions.
func (g *Gateway) Sessions() int { return g.sessions.len() }

// errStopping is the answer to requests that come while the gateway closes.
var errStopping = &mcp.Error{Code: mcp.CodeServerGone, Message: "the workload is stopping; connect again when it runs"}

// Close drains the gateway: it takes no new request, waits for those in flight
// until ctx ends, then ends all sessions and their streams and closes the
// backend. The error says how many requests were cut off, or what the backend
// reported. A second Close does nothing.
func (g *Gateway) Close(ctx context.Context) error {
	if !g.calls.shut() {
		return nil
	}
	g.drain()
	var cutOff error
	if left := g.calls.wait(ctx); left > 0 {
		cutOff = fmt.Errorf("%d requests of workload %q were cut off: %w", left, g.cfg.Name, context.Cause(ctx))
	}
	g.cut(errStopping)
	g.parked.close()
	for _, s := range append(g.sessions.close(), g.shared.close()...) {
		g.leave(s)
	}
	err := g.cfg.Backend.Close()
	g.sweep.Wait()
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.pace.settle)
	defer cancel()
	g.closers.wait(settle)
	if left := g.calls.wait(settle); left > 0 {
		g.log.Error("requests did not end when their server was closed", "requests", left)
	}
	return errors.Join(cutOff, err)
}
