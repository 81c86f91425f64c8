package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/toolhaven/toolhaven/internal/buildinfo"
	"github.com/toolhaven/toolhaven/internal/registry/catalog"
	"github.com/toolhaven/toolhaven/internal/registry/store"
)

// readiness reports whether requests would be answered.
type readiness struct {
	store    store.Store
	catalog  *catalog.Catalog
	warmed   atomic.Bool
	stopping atomic.Bool
}

const (
	pingTimeout = 2 * time.Second
	warmAgain   = time.Second
)

// warm reads the catalog once, so that the first request finds it read.
func (s *readiness) warm(ctx context.Context, log *slog.Logger) {
	for {
		err := s.catalog.Warm(ctx)
		if err == nil {
			s.warmed.Store(true)
			return
		}
		log.Warn("the catalog cannot be read yet", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(warmAgain):
		}
	}
}

// reason is why the server is not ready; "" when it is.
func (s *readiness) reason(ctx context.Context) string {
	if s.stopping.Load() {
		return "it is stopping"
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := s.store.Ping(ctx); errors.Is(err, store.ErrFull) {
		return "the disk of the database is full"
	} else if err != nil {
		return "the database does not answer"
	}
	if !s.warmed.Load() {
		return "the catalog is being read"
	}
	return ""
}

// internalHandler serves health, version and metrics, on a port of its own without
// authentication.
func internalHandler(s *readiness, m *metrics) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "healthy"})
	})
	mux.HandleFunc("GET /readiness", func(w http.ResponseWriter, r *http.Request) {
		if reason := s.reason(r.Context()); reason != "" {
			writeJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": reason})
			return
		}
		writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		b := buildinfo.Get()
		writeJSON(w, http.StatusOK, map[string]string{
			"version": b.Version, "commit": b.Commit, "build_date": b.BuildDate, "go_version": b.GoVersion, "platform": b.Platform,
		})
	})
	mux.Handle("GET /metrics", m.handler())
	return mux
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the caller went away
}
