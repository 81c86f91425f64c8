// Package web serves the registry's pages for browsers: visitors browse and search the
// catalog, read the description and the settings of a server, and copy the command
// that runs it. Pages are rendered on the server from templates. The one script only
// adds copy buttons, and nothing is loaded from other sites.
//
// In oauth mode a visitor signs in at an identity provider (authorization code with
// PKCE). A sealed cookie then holds the visitor's identity and never a token. The
// server keeps no sessions: all replicas share the key that opens the cookies.
//
// The texts on a page come from publishers. They reach HTML only through
// html/template, without control and bidirectional characters. Links lead to http and
// https only. A command is quoted for a shell, and is not shown if quoting cannot make
// it safe to paste.
package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/auth"
	"github.com/toolhaven/toolhaven/internal/registry/catalog"
)

// Options configure a Site.
type Options struct {
	// Registries are those of the server, in order.
	Registries func() []catalog.Registry
	// BaseURL is the URL of the registry server as browsers reach it; it may have
	// a path. When it is "", pages are at the root, and commands show Host.
	BaseURL string
	// Host is the server's host, with a port unless it is the scheme's. When it is
	// "", commands show the local address of the connection, never the Host header of
	// the request.
	Host string
	// ResourceURL is the audience of access tokens (RFC 8707); needed with Login.
	ResourceURL string
	// Login configures the sign-in. Without it every visitor sees everything, unless
	// LoginMissing.
	Login *Login
	// LoginMissing is oauth mode without a login for browsers: no page shows the
	// catalog.
	LoginMissing bool
	// Challenge is the WWW-Authenticate of 401 responses; "Bearer" if "".
	Challenge string
	// Validate validates the access token of a sign-in, as the API validates tokens.
	Validate func(ctx context.Context, token string) (*auth.Identity, error)
	// MayRead reports whether an identity may read a registry.
	MayRead func(id *auth.Identity, registry string) bool
	// KeepClaims are the claims that MayRead uses.
	KeepClaims []string
	// Key is the secret that seals cookies: 32 bytes, the same in all replicas.
	Key func(ctx context.Context) ([]byte, error)
	Log *slog.Logger
	Now func() time.Time // time.Now if nil
}

// Route is a pattern of http.ServeMux with its handler.
type Route struct {
	Pattern string
	Handler http.Handler
}

// Site serves the pages.
type Site struct {
	opt    Options
	at     location
	assets *assets
	pages  *renderer
	browse *browser
	signIn *signIn // nil without Login
	mux    *http.ServeMux
}

// New returns the site. Its errors are faults of the configuration.
func New(opt Options) (*Site, error) {
	s := &Site{opt: opt, mux: http.NewServeMux()}
	if s.opt.Now == nil {
		s.opt.Now = time.Now
	}
	if s.opt.Log == nil {
		s.opt.Log = slog.New(slog.DiscardHandler)
	}
	if s.opt.Challenge == "" {
		s.opt.Challenge = "Bearer"
	}
	if s.opt.Registries == nil {
		return nil, errors.New("web: there are no registries to show")
	}
	var err error
	if s.at, err = newLocation(opt.BaseURL); err != nil {
		return nil, err
	}
	if s.assets, err = readAssets(s.at.prefix); err != nil {
		return nil, err
	}
	all, err := parseTemplates()
	if err != nil {
		return nil, err
	}
	s.pages = &renderer{&s.opt, s.at, s.assets, all}
	s.browse = &browser{&s.opt, s.at, s.pages}
	if opt.Login != nil {
		if s.signIn, err = newSignIn(&s.opt, s.at, s.pages); err != nil {
			return nil, err
		}
	}
	s.Register(s.mux)
	return s, nil
}

// Routes are the routes of the pages. Other handlers have all other paths.
func (s *Site) Routes() []Route {
	routes := []Route{
		{"GET /{$}", s.private(s.browse.home)},
		{"GET /catalog/{registry}", s.private(s.browse.catalog)},
		{"GET /server/{registry}/{name...}", s.private(s.browse.server)},
		{"GET /assets/{file}", http.HandlerFunc(s.asset)},
	}
	switch {
	case s.opt.LoginMissing:
		routes = append(routes, Route{"GET /login", s.private(s.browse.home)})
	case s.signIn != nil:
		routes = append(routes,
			Route{"GET /login", s.guarded(s.signIn.start)},
			Route{"GET /login/callback", s.guarded(s.signIn.finish)},
			Route{"POST /logout", s.guarded(s.signIn.logout)})
	}
	return routes
}

// Register adds the routes to a mux.
func (s *Site) Register(mux *http.ServeMux) {
	for _, r := range s.Routes() {
		mux.Handle(r.Pattern, r.Handler)
	}
}

// ServeHTTP serves the routes of the pages, and 404 for other paths.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// visitor is the user of a browser.
type visitor struct {
	id *auth.Identity // nil in anonymous mode
}

// private shows a page to visitors who have signed in; in anonymous mode, to all.
func (s *Site) private(page func(http.ResponseWriter, *http.Request, visitor)) http.Handler {
	return s.guarded(func(w http.ResponseWriter, r *http.Request) {
		if s.opt.LoginMissing {
			s.pages.refuse(w, r, "login-missing", nil)
			return
		}
		if s.signIn == nil {
			page(w, r, visitor{})
			return
		}
		id, err := s.signIn.session(r)
		switch {
		case err != nil:
			s.pages.unavailable(w, r, err)
		case id == nil:
			s.pages.refuse(w, r, "sign-in", map[string]string{"Login": s.at.login(r.URL.RequestURI())})
		default:
			page(w, r, visitor{id})
		}
	})
}

// policy is the content security policy of every response: nothing from other sites,
// nothing inline, in no frame.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guarded sets the headers of every page.
func (s *Site) guarded(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		s.secure(h, r)
		h.Set("Cache-Control", "private, no-cache")
		if s.signIn != nil || s.opt.LoginMissing {
			h.Set("Cache-Control", "private, no-store")
		}
		next(w, r)
	})
}

func (s *Site) secure(h http.Header, r *http.Request) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	if s.at.trustworthy(r) {
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// secureRequest reports whether a request was received over HTTPS, by this server or by
// a proxy in front of it.
func secureRequest(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}
