// Package web is the registry server's page for people: they browse and search
// the catalog, look at what a server is and needs, and copy the line that runs
// it. Pages are made here, whole, from templates; the one script only adds copy
// buttons, and nothing is loaded from anywhere else.
//
// In oauth mode a visitor signs in at an identity provider (authorization code
// with PKCE) and is then known by a sealed cookie, which holds who they are and
// never a token. There is no session on the server: any replica opens the
// cookies of any other, since they share the key.
//
// What a page shows was written by others. It reaches HTML through
// html/template alone, without characters that steer (control, bidirectional);
// links lead to http and https only; a command is quoted for a shell, and is not
// shown at all where that would not make it safe to paste.
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

// Options are what a Site works with.
type Options struct {
	// Registries are those of the server, in order.
	Registries func() []catalog.Registry
	// BaseURL is the URL of the registry server as browsers reach it; it may have
	// a path. When it is "", pages are at the root, and commands show Host.
	BaseURL string
	// Host is the server's host, with a port where that is not the scheme's. When
	// it is "", commands show the address that the connection came to: the Host of
	// a request is never shown.
	Host string
	// ResourceURL is what access tokens must be for (RFC 8707); needed with Login.
	ResourceURL string
	// Login is how a visitor signs in; nil shows everything to every visitor, unless
	// LoginMissing.
	Login *Login
	// LoginMissing is oauth mode without a login for browsers: no page shows
	// anything of the catalog.
	LoginMissing bool
	// Challenge is the WWW-Authenticate of 401 answers; "Bearer" if "".
	Challenge string
	// Validate judges the access token of a sign-in, as the API judges tokens.
	Validate func(ctx context.Context, token string) (*auth.Identity, error)
	// MayRead reports whether an identity may read a registry.
	MayRead func(id *auth.Identity, registry string) bool
	// KeepClaims are the claims that MayRead looks at.
	KeepClaims []string
	// Key is the secret that seals cookies: 32 bytes, the same in all replicas.
	Key func(ctx context.Context) ([]byte, error)
	Log *slog.Logger
	Now func() time.Time // time.Now if nil
}

// Route is a pattern of http.ServeMux with what answers it.
type Route struct {
	Pattern string
	Handler http.Handler
}

// Site is the page.
type Site struct {
	opt    Options
	at     location
	assets *assets
	pages  *renderer
	browse *browser
	signIn *signIn // nil without Login
	mux    *http.ServeMux
}

// New makes the page. Its errors are of the configuration.
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

// Routes are all that the page answers; every other path belongs to other handlers.
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

// ServeHTTP answers the page's own routes, and 404 for the rest.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// visitor is who looks at a page.
type visitor struct {
	id *auth.Identity // nil in anonymous mode
}

// private shows a page to visitors who may see pages, in oauth mode to those who
// have signed in.
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

// policy is the content security policy of every answer: nothing from elsewhere,
// nothing inline, in no frame.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guarded puts the headers on that every page has.
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

// secureRequest reports whether a request came by HTTPS, to us or to what is in
// front of us.
func secureRequest(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}
