package gateway

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/toolhaven/toolhaven/internal/endpoint"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// route serves every path.
func (g *Gateway) route(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch {
	case path == endpoint.PathHealth:
		g.health(w, r)
	case path == endpoint.PathMetrics && g.cfg.Stages.Metrics != nil:
		g.metrics(w, r)
	case g.core.Endpoint.Mode == endpoint.SSE && g.routeSSE(w, r, path):
	case g.core.Endpoint.Mode == endpoint.Streamable && path == endpoint.PathMCP:
		g.routeMCP(w, r)
	default:
		httpd.Refuse(w, http.StatusNotFound, "not_found", "nothing is served at this path; this workload's MCP server is at "+g.core.Endpoint.Path()+" (proxy mode "+g.core.Endpoint.Mode+")")
	}
}

// routeMCP serves /mcp: a POST of either era, and the GET and DELETE of the session era.
func (g *Gateway) routeMCP(w http.ResponseWriter, r *http.Request) {
	if g.passedOn(w, r, r.Header.Values(mcp.HeaderSessionID)) {
		return
	}
	allow, sessions := "GET, POST, DELETE, OPTIONS", true
	if g.core.Endpoint.Stateless {
		allow, sessions = "POST, OPTIONS", false
	}
	switch {
	case r.Method == http.MethodPost:
		g.post(w, r)
	case r.Method != http.MethodOptions && mcp.Version(r.Header.Get(mcp.HeaderVersion)).IsStateless():
		httpd.RefuseMethod(w, "POST, OPTIONS") // MCP 2026-07-28, basic/transports/streamable-http
	case r.Method == http.MethodGet && sessions:
		g.streamable.Listen(w, r)
	case r.Method == http.MethodDelete && sessions:
		g.streamable.Delete(w, r)
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", allow)
		w.WriteHeader(http.StatusNoContent)
	default:
		httpd.RefuseMethod(w, allow)
	}
}

// post parses a POST and passes it to the front of its era.
func (g *Gateway) post(w http.ResponseWriter, r *http.Request) {
	p := &httpd.Post{W: w, R: r}
	if p.JSON, p.Events = httpd.Accepts(r); !p.JSON && !p.Events {
		httpd.ProtocolFault(w, http.StatusNotAcceptable, "the Accept header must allow application/json and text/event-stream")
		return
	}
	if !g.core.Parse(p) {
		return
	}
	defer p.Body.Release()
	for _, m := range p.Messages {
		hints, err := httpd.ReadEra(r, m)
		if err == nil && hints.IsStateless() {
			g.stateless.Post(p, hints)
			return
		}
		if err == nil {
			err = hints.Check()
		}
		if err != nil {
			g.core.Fail(w, http.StatusBadRequest, p.ID(), err)
			return
		}
	}
	g.streamable.Post(p)
}

// routeSSE serves the two paths of HTTP+SSE, with and without the prefix: a proxy may remove
// it, or not. It returns false for any other path.
func (g *Gateway) routeSSE(w http.ResponseWriter, r *http.Request, path string) bool {
	method, serve := http.MethodGet, g.sse.Subscribe
	switch prefix := g.core.Prefix(r); path {
	case endpoint.PathSSE, prefix + endpoint.PathSSE:
	case endpoint.PathMessages, prefix + endpoint.PathMessages:
		method, serve = http.MethodPost, g.sse.Post
	default:
		return false
	}
	if method == http.MethodPost && g.passedOn(w, r, r.URL.Query()["session_id"]) {
		return true
	}
	switch r.Method {
	case method:
		serve(w, r)
	case http.MethodOptions:
		w.Header().Set("Allow", method+", OPTIONS")
		w.WriteHeader(http.StatusNoContent)
	default:
		httpd.RefuseMethod(w, method+", OPTIONS")
	}
	return true
}

// metrics serves the metrics of the gateway, to whom the earlier stages admit.
func (g *Gateway) metrics(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		w.Header().Set("Cache-Control", "no-store")
		g.cfg.Stages.Metrics.ServeHTTP(w, r)
	case http.MethodOptions:
		w.Header().Set("Allow", "GET, HEAD, OPTIONS")
		w.WriteHeader(http.StatusNoContent)
	default:
		httpd.RefuseMethod(w, "GET, HEAD, OPTIONS")
	}
}

// health responds with 200 when the workload runs, otherwise with 503 and its state.
func (g *Gateway) health(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		w.Header().Set("Allow", "GET, HEAD, OPTIONS")
		w.WriteHeader(http.StatusNoContent)
		return
	default:
		httpd.RefuseMethod(w, "GET, HEAD, OPTIONS")
		return
	}
	state, reason := g.cfg.Status()
	report := struct {
		Status   string `json:"status"`
		Reason   string `json:"reason,omitempty"`
		Workload string `json:"workload,omitempty"`
		Mode     string `json:"mode"`
		Sessions int    `json:"sessions"`
		Version  string `json:"version,omitempty"`
	}{state, reason, g.cfg.Name, g.cfg.Endpoint.Mode, g.Sessions(), g.cfg.Version}
	status := http.StatusServiceUnavailable
	if state == "running" {
		report.Status, status = "healthy", http.StatusOK
	}
	b, err := json.Marshal(report)
	if err != nil {
		panic(err) // strings and a number
	}
	w.Header().Set("Cache-Control", "no-store")
	httpd.WriteJSON(w, status, b)
}
