// Package api serves the official registry API v0.1 under /registry/{registry}:
// reading for those who may read, publishing on registries with a managed
// source. It serves the document that describes itself, and the metadata by
// which clients find out how to sign in.
//
// Access is decided on the route that was matched, never on the text of a path:
// every route is registered with the action that it requires, and a path that
// matches none requires a token too. Paths that could be read in two
// ways are refused before anything is routed (see checkPath).
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/auditlog"
	"github.com/toolhaven/toolhaven/internal/auth"
	"github.com/toolhaven/toolhaven/internal/registry/catalog"
)

// Options are what a Handler works with.
type Options struct {
	Catalog *catalog.Catalog
	// Access holds the rules of access; nil allows everything (anonymous).
	Access *Access
	Log    *slog.Logger
	// Audit stores one record for each write and each refusal of one.
	Audit *auditlog.Log
	// Web, if any, adds the routes of the page for people, which protects itself.
	Web func(*http.ServeMux)
}

// Access is the configuration of the protected resource.
type Access struct {
	Validator *auth.Validator
	Resource  *auth.Resource
	// Public are paths that need no token for reading, with what is below them.
	Public []string
	Rules  Rules
}

// requestTimeout bounds the work on one request.
const requestTimeout = 30 * time.Second

type handler struct {
	Options
	mux *http.ServeMux
}

// New makes the handler of the main port.
func New(opt Options) http.Handler {
	h := &handler{Options: opt, mux: http.NewServeMux()}
	allowed := map[string][]string{} // methods by path
	for _, r := range h.routes() {
		h.mux.Handle(r.method+" "+r.path, h.protect(r.action, r.handler))
		allowed[r.path] = append(allowed[r.path], r.method)
	}
	for path, methods := range allowed {
		h.mux.Handle(path, h.protect(ActionRead, methodNotAllowed(methods)))
	}
	h.mux.Handle("GET /openapi.json", http.HandlerFunc(serveOpenAPI))
	h.mux.Handle("/openapi.json", methodNotAllowed([]string{http.MethodGet}))
	if h.Access != nil {
		for _, path := range h.Access.Resource.Paths() {
			h.mux.Handle(path, h.Access.Resource)
		}
	}
	h.mux.HandleFunc("/.well-known/", notFound)
	h.mux.HandleFunc("/.well-known", notFound) // or the mux would redirect
	if opt.Web != nil {
		opt.Web(h.mux)
	}
	// Every other path requires the authorization of reading before its 404.
	h.mux.Handle("/", h.protect(ActionRead, notFound))
	return h
}

// ServeHTTP answers a request of the main port.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	if err := checkPath(r.URL); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	// The mux sets the route on the request that it is given; the metrics read it
	// from the caller's.
	inner := r.WithContext(ctx)
	h.mux.ServeHTTP(w, inner)
	r.Pattern = inner.Pattern
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	fail(w, http.StatusNotFound, "there is no such page")
}

// methodNotAllowed lists the methods of a path (RFC 9110 section 15.5.6).
func methodNotAllowed(methods []string) http.HandlerFunc {
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	allow := strings.Join(methods, ", ")
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", allow)
		fail(w, http.StatusMethodNotAllowed, "this path has the methods "+allow)
	}
}

// protect lets a request through to next if its caller may do the action.
func (h *handler) protect(action Action, next http.HandlerFunc) http.Handler {
	if h.Access == nil {
		if action == ActionRead {
			return next
		}
		// Without tokens, a web page of another origin must not write through a
		// browser that can reach this server.
		protection := http.NewCrossOriginProtection()
		protection.SetDenyHandler(http.HandlerFunc(h.crossOrigin))
		return protection.Handler(next)
	}
	authorized := h.authorize(action, next)
	if action != ActionRead {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var caller known
			authorized.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), knownKey{}, &caller)))
			if !caller {
				h.audit(r, "refused", errNoToken)
			}
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.Access.isPublic(r.URL.Path) {
			next(w, r)
			return
		}
		authorized.ServeHTTP(w, r)
	})
}

// known reports whether a request's caller has an identity.
type known bool

type knownKey struct{}

var (
	errNoToken     = errors.New("no valid access token")
	errNotAllowed  = errors.New("the token does not allow this")
	errCrossOrigin = errors.New("a web page of another origin may not write")
)

// authorize validates the caller's token and applies the rules.
func (h *handler) authorize(action Action, next http.HandlerFunc) http.Handler {
	return auth.Require(h.Access.Validator, h.Access.Resource.Unauthorized, h.Log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if caller, ok := r.Context().Value(knownKey{}).(*known); ok {
			*caller = true
		}
		id, registry := auth.From(r.Context()), r.PathValue("registry")
		if scope, ok := h.Access.Rules.Allow(id, action, registry); !ok {
			h.Log.Info("refused", "action", string(action), "registry", registry, "provider", id.Provider, "subject", id.Subject)
			if action == ActionWrite {
				h.audit(r, "refused", errNotAllowed)
			}
			h.Access.Resource.Refuse(w, http.StatusForbidden, "insufficient_scope", errNotAllowed.Error(), scope)
			return
		}
		next(w, r)
	}))
}

func (h *handler) crossOrigin(w http.ResponseWriter, r *http.Request) {
	h.audit(r, "refused", errCrossOrigin)
	w.Header().Set("Cache-Control", "no-store")
	answer(w, http.StatusForbidden, map[string]string{"error": "access_denied", "error_description": errCrossOrigin.Error()})
}

// isPublic compares whole segments. checkPath has made sure that the decoded path
// is the path that was routed.
func (a *Access) isPublic(path string) bool {
	for _, public := range a.Public {
		public = strings.TrimSuffix(public, "/")
		if path == public || strings.HasPrefix(path, public+"/") {
			return true
		}
	}
	return false
}

// audit records a write, or the refusal of one.
func (h *handler) audit(r *http.Request, outcome string, err error) {
	attrs := []slog.Attr{
		slog.String("outcome", outcome), slog.String("method", r.Method), slog.String("route", r.Pattern),
		slog.String("registry", r.PathValue("registry")), slog.String("server", r.PathValue("server")), slog.String("version", r.PathValue("version")),
		slog.String("remote", r.RemoteAddr),
	}
	if id := auth.From(r.Context()); id != nil {
		attrs = append(attrs, slog.String("provider", id.Provider), slog.String("issuer", id.Issuer), slog.String("subject", id.Subject))
	}
	if err != nil {
		attrs = append(attrs, slog.String("reason", err.Error()))
	}
	h.Audit.Record(attrs...)
}

var errNoRegistry = errors.New("there is no such registry")

func (h *handler) registry(r *http.Request) (catalog.Registry, error) {
	reg, ok := h.Catalog.Registry(r.PathValue("registry"))
	if !ok {
		return nil, errNoRegistry
	}
	return reg, nil
}
