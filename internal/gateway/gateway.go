// Package gateway serves an MCP server on the local network: it turns a client's HTTP
// request into an [exchange.Exchange], passes it through the stages, and sends it to the
// server by an [exchange.Backend].
//
// There is a front for each era of the protocol: package sessions (streamable HTTP of MCP
// 2025-11-25 and before, and HTTP+SSE) and package stateless (MCP 2026-07-28). They share
// package httpd. The era of a message is determined by its own hints ([httpd.EraHints]).
//
// Every request is answered with the server's own response or with an error that states
// what failed.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/gateway/sessions"
	"github.com/toolhaven/toolhaven/internal/gateway/stateless"
	"github.com/toolhaven/toolhaven/internal/seal"
)

// DefaultSessionTTL is how long a session lives without activity.
const DefaultSessionTTL = 2 * time.Hour

// maxSessions bounds the open sessions of one gateway.
const maxSessions = 20_000

// Config is the configuration of a gateway.
type Config struct {
	Backend exchange.Backend
	// Name is the workload's, for /health and the log.
	Name string
	// Version is Toolhaven's own, for /health; "" leaves it out.
	Version string
	// Endpoint is how the gateway is served. A prefix may end in a slash; a
	// SessionTTL of 0 is DefaultSessionTTL.
	Endpoint endpoint.Config
	// TrustProxyHeaders is set when every request passes a reverse proxy that sets
	// X-Forwarded-For, X-Forwarded-Host and X-Forwarded-Prefix.
	TrustProxyHeaders bool
	// Key seals what clients keep for the gateway, such as session ids (seal.KeySize
	// bytes). A gateway with the same key and name resumes the sessions of an earlier one,
	// if their servers still know them; nil is a random key, with which sessions end with
	// the gateway.
	Key []byte
	// Status returns the workload's state ("running" when it serves) and the reason for any
	// other; nil means always running. It may be called often.
	Status func() (state, reason string)
	// Stages are those that the workload configures.
	Stages Stages
	// Replicas are the other gateways of the workload, with the same key; nil is none.
	Replicas *Replicas
	// Log receives what went wrong; nil discards it.
	Log *slog.Logger
}

// Stages are the optional stages of a gateway. One that is nil is not in the chain; [New]
// has the order.
type Stages struct {
	// TelemetryHTTP and Authenticate inspect HTTP requests.
	TelemetryHTTP, Authenticate func(http.Handler) http.Handler
	// Navigable are the paths of pages that Authenticate serves and any site may lead a
	// browser to; nil is none.
	Navigable func(path string) bool
	// The others inspect exchanges.
	Telemetry, Audit, Tools, Policy, Webhooks, TelemetryServer exchange.Stage
	// Metrics serves /metrics, after Authenticate; nil responds with 404.
	Metrics http.Handler
}

// Gateway serves one workload's clients. It is an http.Handler for the whole host: mount it
// as it is, not behind a mux.
type Gateway struct {
	cfg  Config
	core *httpd.Core
	http http.Handler // the stages that inspect HTTP, then route
	peer http.Handler // the same for requests that replicas pass on

	store      *sessions.Store
	streamable *sessions.Streamable
	sse        *sessions.SSE
	stateless  *stateless.Front

	drain context.CancelFunc      // of core.Draining
	cut   context.CancelCauseFunc // of core.Context
}

// ofExchanges are the stages that inspect exchanges, in order. After the webhooks come the
// checks of what a webhook may have changed.
func (s Stages) ofExchanges(log *slog.Logger, tasks exchange.Stage) []exchange.Stage {
	all := []exchange.Stage{recovered(log), s.Telemetry, properNames, s.Audit, tasks, s.Tools, s.Policy}
	if s.Webhooks != nil {
		all = append(all, s.Webhooks, properNames, s.Policy)
	}
	return append(all, s.TelemetryServer)
}

// New builds a gateway and puts its stages in order. The order is defined here only. The
// stages in brackets are those of Config.Stages:
//
//	deadlines            httpd/deadlines.go
//	recover              a panic is the error of one request: handler.go
//	host/origin guard    httpd/guard.go
//	limits               httpd/body.go
//	(telemetry)          the part for HTTP
//	(authenticate)
//	parse MCP            routes.go, then the front: sessions, stateless
//	(telemetry)          the span of a request, and the metrics
//	proper names         names.go
//	(audit)
//	(tasks)              of other principals, with authenticate: tasks.go
//	(tool name)          filter and override
//	(policy)             authorization
//	(webhooks)           and after them proper names and policy again
//	(telemetry)          the span of the request to the server
//	session/bridge       the front has chosen the connection; exchange.Deliver
//	(credential)         a http.RoundTripper of the backend
//	backend              package gateway/backend
//
// What stands before "parse MCP" inspects HTTP requests, what stands after it is an
// [exchange.Stage]. A stage that is not configured is not in the chain.
//
// The error joins all faults of the configuration.
func New(cfg Config) (*Gateway, error) { return newGateway(cfg, httpd.DefaultTiming()) }

func newGateway(cfg Config, timing httpd.Timing) (*Gateway, error) {
	cfg, err := complete(cfg)
	key := cfg.Key
	if key == nil {
		key = seal.NewKey()
	}
	sealer, sealErr := seal.New(key)
	if err := errors.Join(err, sealErr); err != nil {
		return nil, fmt.Errorf("configure the gateway of %q: %w", cfg.Name, err)
	}
	stages := cfg.Stages
	var tasks exchange.Stage
	if stages.Authenticate != nil {
		if tasks, err = newTasks(); err != nil {
			return nil, err
		}
	}
	core := &httpd.Core{
		Name: cfg.Name, Endpoint: cfg.Endpoint, TrustProxyHeaders: cfg.TrustProxyHeaders,
		Log: cfg.Log, Timing: timing, Backend: cfg.Backend, Sealer: sealer,
		Handler: chain(exchange.Deliver, stages.ofExchanges(cfg.Log, tasks)...),
		Self:    cfg.Replicas.self(),
		Running: func() bool { state, _ := cfg.Status(); return state == "running" },
		Inbound: httpd.Budget{Max: httpd.MaxInbound}, Held: httpd.Budget{Max: httpd.MaxHeld},
		MaxSessions: maxSessions,
	}
	g := &Gateway{cfg: cfg, core: core}
	core.Draining, g.drain = context.WithCancel(context.Background())
	core.Context, g.cut = context.WithCancelCause(context.Background())
	g.store = sessions.NewStore(core, cfg.Key != nil)
	g.streamable = sessions.NewStreamable(core, g.store)
	g.sse = sessions.NewSSE(core, g.store, endpoint.PathMessages)
	g.stateless = stateless.New(core)

	guard := httpd.NewGuard(cfg.Endpoint.AllowedHosts, cfg.TrustProxyHeaders)
	guard.Navigable = stages.Navigable
	inner := wrap(http.HandlerFunc(g.route), stages.TelemetryHTTP, stages.Authenticate)
	g.http = core.Deadlines(guard.Wrap(inner))
	g.peer = core.Deadlines(ofPeer(inner)) // the replica's guard has admitted it
	cfg.Backend.SetEvictor(g.stateless.Evict)
	return g, nil
}

// complete fills in defaults and checks the rest.
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
func (g *Gateway) Sessions() int { return g.store.Len() }

// Close drains the gateway: it accepts no new request, waits for those in flight until ctx
// ends, then ends all sessions and their streams and closes the backend. The error states
// how many requests were cancelled, or what the backend reported. A second Close does
// nothing.
func (g *Gateway) Close(ctx context.Context) error {
	if !g.core.Calls.Stop() {
		return nil
	}
	g.drain()
	var cancelled error
	if left := g.core.Calls.Wait(ctx); left > 0 {
		cancelled = fmt.Errorf("%d requests of workload %q were cancelled: %w", left, g.cfg.Name, context.Cause(ctx))
	}
	g.cut(httpd.ErrStopping)
	g.stateless.Close()
	g.store.End()
	err := g.cfg.Backend.Close()
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.core.Timing.Settle)
	defer cancel()
	g.store.Wait(settle)
	if left := g.core.Calls.Wait(settle); left > 0 {
		g.core.Log.Error("requests did not return when their server was closed", "requests", left)
	}
	return errors.Join(cancelled, err)
}
