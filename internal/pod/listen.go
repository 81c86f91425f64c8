package pod

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/serve"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// PathReadiness reports whether clients should be sent to this pod.
const PathReadiness = "/readiness"

// server serves HTTP on one address.
type server struct {
	http   *http.Server
	failed chan error // holds why it ended by itself
}

// listen serves handler at an address. wrap, if not nil, wraps the listener.
func (p *pod) listen(ctx context.Context, address string, handler http.Handler, wrap func(net.Listener) net.Listener) (*server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	if wrap != nil {
		l = wrap(l)
	}
	s := &server{http: serve.HTTP(handler, p.log), failed: make(chan error, 1)}
	go func() { s.failed <- fmt.Errorf("serve %s: %w", address, s.http.Serve(l)) }()
	return s, nil
}

func (s *server) close() { _ = s.http.Close() } // the listener's error changes nothing

// serveHTTP serves the probes of the kubelet, and otherwise what the gateway does.
func (p *pod) serveHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case endpoint.PathHealth:
		// The process lives. That its server does not is no reason to restart it.
		p.report(w, r, http.StatusOK)
	case PathReadiness:
		status := http.StatusServiceUnavailable
		if p.ready() {
			status = http.StatusOK
		}
		p.report(w, r, status)
	default:
		p.pass(w, r, func(s *serving) http.Handler { return s.gateway })
	}
}

// servePeer serves what other replicas pass on.
func (p *pod) servePeer(w http.ResponseWriter, r *http.Request) {
	p.pass(w, r, func(s *serving) http.Handler { return s.gateway.Peer() })
}

func (p *pod) pass(w http.ResponseWriter, r *http.Request, to func(*serving) http.Handler) {
	s := p.serving.Load()
	if s == nil {
		_, reason := p.condition()
		w.Header().Set("Retry-After", "1")
		respond(w, http.StatusServiceUnavailable, map[string]string{"error": "not_ready", "message": reason})
		return
	}
	to(s).ServeHTTP(w, r)
}

func (p *pod) report(w http.ResponseWriter, r *http.Request, status int) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		respond(w, http.StatusMethodNotAllowed, map[string]string{"error": "method_not_allowed"})
		return
	}
	state, reason := p.condition()
	body := map[string]string{"status": string(state), "workload": p.spec.Name}
	if state != workload.Running {
		body["reason"] = reason
	}
	respond(w, status, body)
}

func respond(w http.ResponseWriter, status int, body map[string]string) {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client may have gone
}

// drain stops being ready at once, serves on until the cluster has noticed, and then waits for
// the calls in flight.
func (p *pod) drain() {
	p.ending.Store(true)
	p.log.Info("ending: no longer ready")
	if p.cfg.Notice > 0 {
		pause(context.Background(), p.cfg.Notice, nil)
	}
	s := p.serving.Load()
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.cfg.Drain)
	defer cancel()
	if err := s.gateway.Close(ctx); err != nil {
		p.log.Warn("calls were cut off at the end", "error", err)
	}
}
