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
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
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
	Options
	base   string // scheme, host and path, without a slash at the end; or ""
	prefix string // path of base
	assets *assets
	pages  pages
	seal   *sealer
	login  *provider // nil without Login
	origin *http.CrossOriginProtection
	mux    *http.ServeMux
}

// New makes the page. Its errors are of the configuration.
func New(opt Options) (*Site, error) {
	s := &Site{Options: opt, origin: http.NewCrossOriginProtection()}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.Challenge == "" {
		s.Challenge = "Bearer"
	}
	if s.Registries == nil {
		return nil, errors.New("web: there are no registries to show")
	}
	if err := s.locate(); err != nil {
		return nil, err
	}
	if err := s.openLogin(); err != nil {
		return nil, err
	}
	var err error
	if s.assets, err = readAssets(); err != nil {
		return nil, err
	}
	if s.pages, err = parsePages(); err != nil {
		return nil, err
	}
	s.mux = http.NewServeMux()
	s.Register(s.mux)
	return s, nil
}

// locate takes BaseURL apart.
func (s *Site) locate() error {
	if s.BaseURL == "" {
		return nil
	}
	u, err := url.Parse(s.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return fmt.Errorf("web: %q is not the http(s) URL of a server", s.BaseURL)
	}
	s.prefix = strings.TrimRight(u.EscapedPath(), "/")
	// It becomes part of links and of cookies' paths.
	if strings.ContainsAny(s.prefix, ";,\"\\ ") || strings.HasPrefix(s.prefix, "//") {
		return fmt.Errorf("web: the path of %q cannot be that of a page", s.BaseURL)
	}
	s.base = u.Scheme + "://" + u.Host + s.prefix
	return s.origin.AddTrustedOrigin(u.Scheme + "://" + u.Host)
}

func (s *Site) openLogin() error {
	if s.Login == nil {
		return nil
	}
	switch {
	case s.LoginMissing:
		return errors.New("web: there is a login, so it cannot be missing")
	case s.base == "" || s.ResourceURL == "":
		return errors.New("web: a login needs the URL of the server and of the resource")
	case s.Validate == nil || s.MayRead == nil || s.Key == nil:
		return errors.New("web: a login needs what validates tokens, what decides on reading, and a key")
	}
	var err error
	if s.login, err = newProvider(*s.Login, s.Now); err != nil {
		return err
	}
	s.seal = &sealer{key: s.Key, context: s.ResourceURL}
	return nil
}

// Routes are all that the page answers; every other path belongs to other handlers.
func (s *Site) Routes() []Route {
	routes := []Route{
		{"GET /{$}", s.private(s.home)},
		{"GET /catalog/{registry}", s.private(s.catalog)},
		{"GET /server/{registry}/{name...}", s.private(s.server)},
		{"GET /assets/{file}", http.HandlerFunc(s.asset)},
	}
	switch {
	case s.LoginMissing:
		routes = append(routes, Route{"GET /login", s.private(s.home)})
	case s.login != nil:
		routes = append(routes,
			Route{"GET /login", s.guarded(s.startLogin)},
			Route{"GET /login/callback", s.guarded(s.finishLogin)},
			Route{"POST /logout", s.guarded(s.logout)})
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
		if s.LoginMissing {
			s.refuse(w, r, "login-missing", nil)
			return
		}
		if s.login == nil {
			page(w, r, visitor{})
			return
		}
		id, err := s.session(r)
		switch {
		case err != nil:
			s.unavailable(w, r, err)
		case id == nil:
			s.refuse(w, r, "sign-in", map[string]string{"Login": s.loginURL(r.URL.RequestURI())})
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
		if s.login != nil || s.LoginMissing {
			h.Set("Cache-Control", "private, no-store")
		}
		next(w, r)
	})
}

func (s *Site) secure(h http.Header, r *http.Request) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	if s.trustworthy(r) {
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// trustworthy reports what a browser considers a safe connection (W3C Secure
// Contexts, section 3.1). To others it does not apply an opener policy, and
// complains of one.
func (s *Site) trustworthy(r *http.Request) bool {
	if strings.HasPrefix(s.base, "https://") || secureRequest(r) {
		return true
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return ip.IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// secureRequest reports whether a request came by HTTPS, to us or to what is in
// front of us.
func secureRequest(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// readable are the registries that a visitor may read.
func (s *Site) readable(v visitor) []catalog.Registry {
	all := s.Registries()
	if v.id == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(r catalog.Registry) bool { return !s.MayRead(v.id, r.Name()) })
}

// find is a registry that the visitor may read. One that they may not is not
// there for them.
func (s *Site) find(v visitor, name string) catalog.Registry {
	for _, r := range s.readable(v) {
		if r.Name() == name {
			return r
		}
	}
	return nil
}
