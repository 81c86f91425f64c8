package gateway

import (
	"encoding/json"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/endpoint"
)

// Where things are. Paths are compared as they are; nothing is cleaned or
// redirected.
const (
	pathMCP      = "/mcp"
	pathSSE      = "/sse"
	pathMessages = "/messages"
	pathHealth   = "/health"
)

// routes serves the paths that every mode has and gives the rest to the front,
// which reports whether the path is one of its own.
func (g *Gateway) routes(front func(http.ResponseWriter, *http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == pathHealth {
			g.health(w, r)
			return
		}
		if front(w, r) {
			return
		}
		where := pathMCP
		if g.cfg.Endpoint.Mode == endpoint.SSE {
			where = pathSSE
		}
		refuse(w, http.StatusNotFound, "not_found", "nothing is served at this path; this workload's MCP server is at "+where+" (proxy mode "+g.cfg.Endpoint.Mode+")")
	})
}

// health answers 200 when the server answered and is there, otherwise 503 with
// the workload's state.
func (g *Gateway) health(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		w.Header().Set("Allow", "GET, HEAD, OPTIONS")
		w.WriteHeader(http.StatusNoContent)
		return
	default:
		refuseMethod(w, "GET, HEAD, OPTIONS")
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
	writeJSON(w, status, b)
}
