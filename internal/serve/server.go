package serve

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/toolhaven/toolhaven/internal/framing"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// HTTP is the HTTP server of a gateway. It has no timeout for a response: a tool may take its
// time, and the gateway sets the deadlines of its clients itself.
func HTTP(front http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           framing.CloseChunked(front),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    mcp.MaxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
