package authserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
	"github.com/toolhaven/toolhaven/internal/authserver/upstream"
	"github.com/toolhaven/toolhaven/internal/authserver/vault"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/netguard"
)

// Upstream is an identity provider where persons sign in; see [upstream.Provider].
type Upstream interface {
	Name() string
	Authorize(ctx context.Context, state string) (location string, a upstream.Attempt, err error)
	Finish(ctx context.Context, a upstream.Attempt, callback url.Values) (*upstream.Login, error)
}

// Vault keeps the upstream tokens of sessions; see [vault.Vault].
type Vault interface {
	Save(ctx context.Context, b vault.Binding, t upstream.Tokens, lifetime time.Duration) error
	Token(ctx context.Context, b vault.Binding) (access, id string, err error)
	Renew(ctx context.Context, b vault.Binding, rejected string) (access string, err error)
	Extend(ctx context.Context, b vault.Binding, lifetime time.Duration) error
	Delete(ctx context.Context, b vault.Binding) error
	Close(ctx context.Context)
}

// Config configures a Server.
type Config struct {
	// Spec is valid (externalauth.Spec.Validate).
	Spec *externalauth.EmbeddedAuthServer
	// Resource is the URL of the protected resource, the audience of access tokens.
	Resource string
	// RedirectBase is the URL below which upstream providers without a redirectUri send
	// the browser back; "" is the issuer.
	RedirectBase string
	// Scopes are those of the resource.
	Scopes []string
	// Secret returns the value of a secret. It is called again while the server runs, so
	// that changed keys are used.
	Secret func(externalauth.SecretRef) (string, error)
	// Key is used without hmacSecretRefs: 32 random bytes that stay the same. nil is a
	// random one, and clients have to register again after a restart.
	Key   []byte
	Store storage.Store
	// Address identifies the sender of a request, to bound what one sender may do; nil is the
	// connection's address.
	Address func(*http.Request) string
	// CAFiles are trusted beside the system's authorities.
	CAFiles []string
	Log     *slog.Logger

	// Upstreams and Vault are made by New, but in tests.
	Upstreams []Upstream
	Vault     Vault
}

// Server is an authorization server. It may be used concurrently, and several with the same
// store and secrets are one.
type Server struct {
	*core
	callbacks []string // paths
	clients   *clients
	logins    *logins
	tokens    *tokens
}

// core is what all parts of a server share: its configuration, keys and records, and the
// responses to browsers.
type core struct {
	cfg           Config
	issuerPath    string
	authorizeBase string
	browserBase   string   // where the browser comes back to: an origin and the issuer's path
	secure        bool     // the issuer is https
	scopes        []string // supported
	lifespans     struct{ access, refresh, code time.Duration }
	signing       *reloaded[*signingKeys]
	ring          *reloaded[*ring]
	now           func() time.Time
}

// clients are the clients, and the endpoint where they register.
type clients struct {
	*core
	documents     *documents
	registrations limiter
	vouchers      []voucher
}

// logins are the endpoints that a person's browser visits.
type logins struct {
	*core
	clients   *clients
	upstreams []Upstream // the primary one first
	starts    limiter    // of logins, each of which is stored for a while
}

// tokens are the endpoints that issue, describe and revoke tokens.
type tokens struct {
	*core
	clients *clients
}

// Paths below the issuer.
const (
	pathAuthorize  = "/oauth/authorize"
	pathToken      = "/oauth/token"
	pathRegister   = "/oauth/register"
	pathCallback   = "/oauth/callback"
	pathRevoke     = "/oauth/revoke"
	pathIntrospect = "/oauth/introspect"
	pathLogin      = "/oauth/login"
	pathConsent    = "/oauth/consent"
	pathConnect    = "/oauth/connect"
	pathKeys       = "/.well-known/jwks.json"
)

// New makes a server. It sends no request. The error joins what is wrong with the
// configuration, such as keys that cannot be used.
func New(cfg Config) (*Server, error) {
	c := &core{cfg: cfg, now: time.Now}
	s := &Server{core: c, clients: &clients{core: c, registrations: limiter{every: rate.Every(time.Second), burst: 60}}}
	s.logins, s.tokens = &logins{core: c, clients: s.clients, starts: limiter{every: rate.Every(time.Second), burst: 60}}, &tokens{core: c, clients: s.clients}
	if s.cfg.Address == nil {
		s.cfg.Address = func(r *http.Request) string {
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			return host
		}
	}
	issuer, err := url.Parse(cfg.Spec.Issuer)
	if err != nil {
		return nil, err
	}
	s.issuerPath, s.secure = strings.TrimSuffix(issuer.Path, "/"), issuer.Scheme == "https"
	s.authorizeBase = cmp.Or(cfg.Spec.AuthorizationEndpointBaseURL, cfg.Spec.Issuer)
	s.lifespans.access, s.lifespans.refresh, s.lifespans.code = cfg.Spec.Lifespans()
	s.signing = &reloaded[*signingKeys]{refs: cfg.Spec.SigningKeySecretRefs, secret: cfg.Secret, parse: parseSigningKeys, log: cfg.Log}
	s.ring = &reloaded[*ring]{refs: cfg.Spec.HMACSecretRefs, secret: cfg.Secret, log: cfg.Log, parse: func(secrets []string) (*ring, error) {
		if len(secrets) == 0 && cfg.Key != nil {
			secrets = []string{string(cfg.Key)}
		}
		return parseRing(secrets)
	}}
	var errs []error
	if _, err := s.signing.get(); err != nil {
		errs = append(errs, err)
	}
	if _, err := s.ring.get(); err != nil {
		errs = append(errs, err)
	}
	s.scopes = cfg.Spec.SupportedScopes(cfg.Scopes)
	errs = append(errs, cfg.Spec.CheckScopes(cfg.Scopes))
	client, err := netguard.Client(netguard.Options{CAFiles: cfg.CAFiles, AllowLoopback: isLoopback(issuer.Hostname()), Timeout: 5 * time.Second})
	if err != nil {
		errs = append(errs, err)
	}
	s.clients.documents = &documents{http: client, plainHTTP: isLoopback(issuer.Hostname()), kept: map[string]keptDocument{},
		unknown: limiter{every: rate.Every(time.Second), burst: documentBurst}, fetching: make(chan struct{}, documentsAtOnce)}
	errs = append(errs, s.setUpstreams())
	return s, errors.Join(errs...)
}

// scopesFor are the supported ones of those that a client requests, all without any, and the
// baseline for a registration.
func (s *core) scopesFor(requested []string, register bool) []string {
	if len(requested) == 0 {
		return s.scopes
	}
	var granted []string
	for _, scope := range s.scopes {
		if slices.Contains(requested, scope) || register && slices.Contains(s.cfg.Spec.BaselineClientScopes, scope) {
			granted = append(granted, scope)
		}
	}
	return granted
}

// setUpstreams makes the providers, the primary one first: it identifies persons.
func (s *Server) setUpstreams() error {
	s.callbacks = []string{s.issuerPath + pathCallback, pathCallback} // a proxy may remove the issuer's path
	s.browserBase = s.cfg.Spec.Issuer
	s.logins.upstreams = s.cfg.Upstreams
	if s.logins.upstreams == nil {
		var errs []error
		for _, spec := range s.cfg.Spec.UpstreamProviders {
			redirect := cmp.Or(spec.RedirectURI(), cmp.Or(s.cfg.RedirectBase, s.cfg.Spec.Issuer)+pathCallback)
			u, err := url.Parse(redirect)
			if err != nil {
				errs = append(errs, fmt.Errorf("upstream provider %s: redirectUri: %w", spec.Name, err))
				continue
			}
			s.callbacks = append(s.callbacks, u.Path)
			s.browserBase = u.Scheme + "://" + u.Host + s.issuerPath
			p, err := upstream.New(upstream.Config{
				Spec: spec, RedirectURI: redirect, Secret: s.cfg.Secret, Store: s.cfg.Store, Keys: s.VaultKeys,
				CAFiles: s.cfg.CAFiles, Log: s.cfg.Log,
			})
			if err != nil {
				errs = append(errs, fmt.Errorf("upstream provider %s: %w", spec.Name, err))
				continue
			}
			s.logins.upstreams = append(s.logins.upstreams, p)
		}
		if len(errs) > 0 {
			return errors.Join(errs...)
		}
	}
	for _, u := range s.logins.upstreams {
		if v, ok := u.(voucher); ok {
			s.clients.vouchers = append(s.clients.vouchers, v)
		}
	}
	for i, u := range s.logins.upstreams {
		if u.Name() == s.cfg.Spec.PrimaryUpstreamProvider {
			s.logins.upstreams = append([]Upstream{u}, slices.Delete(slices.Clone(s.logins.upstreams), i, i+1)...)
			break
		}
	}
	if s.cfg.Vault == nil {
		s.cfg.Vault = vault.New(vault.Config{Store: s.cfg.Store, Keys: s.VaultKeys, Refresher: s.refresher, Log: s.cfg.Log})
	}
	return nil
}

// Close waits until refreshed upstream tokens are stored, or ctx ends. The store is closed
// after it.
func (s *Server) Close(ctx context.Context) { s.cfg.Vault.Close(ctx) }

// VaultKeys are the keys of upstream tokens at rest, the first of which seals.
func (s *Server) VaultKeys() ([][]byte, error) {
	keys, err := s.ring.get()
	if err != nil {
		return nil, err
	}
	return keys.vault, nil
}

func (s *logins) upstream(name string) Upstream {
	for _, u := range s.upstreams {
		if u.Name() == name {
			return u
		}
	}
	return nil
}

func (s *Server) refresher(name string) vault.Refresher {
	r, _ := s.logins.upstream(name).(vault.Refresher)
	return r
}

// Wrap serves the endpoints of the authorization server, and next all other paths.
func (s *Server) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := s.endpoint(r.URL.Path); h != nil {
			w.Header().Set("Cache-Control", "no-store") // RFC 6749 section 5.1
			w.Header().Set("X-Content-Type-Options", "nosniff")
			r.Body = http.MaxBytesReader(w, r.Body, maxRegistration)
			h(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// endpoint is the handler of a path; nil if it is none of this server's.
func (s *Server) endpoint(path string) http.HandlerFunc {
	if slices.Contains(s.callbacks, path) {
		return only(s.logins.callback, http.MethodGet)
	}
	switch path { // root and path-inserted (RFC 8414 section 3.1)
	case wellKnownOAuth, wellKnownOAuth + s.issuerPath, wellKnownOpenID, wellKnownOpenID + s.issuerPath, s.issuerPath + wellKnownOpenID, s.issuerPath + wellKnownOAuth:
		return crossOrigin(only(s.metadata, http.MethodGet, http.MethodHead))
	case pathKeys, s.issuerPath + pathKeys:
		return crossOrigin(only(s.keys, http.MethodGet, http.MethodHead))
	}
	// A reverse proxy may remove the issuer's path.
	below := strings.TrimPrefix(path, s.issuerPath)
	switch below {
	case pathAuthorize:
		return only(s.logins.authorize, http.MethodGet, http.MethodPost)
	case pathLogin:
		return only(s.logins.login, http.MethodGet)
	case pathConsent:
		return only(s.logins.consent, http.MethodPost)
	case pathConnect:
		return only(s.logins.connect, http.MethodPost)
	case pathToken:
		return crossOrigin(only(s.tokens.authenticated(s.tokens.token), http.MethodPost))
	case pathRegister:
		return crossOrigin(only(s.clients.register, http.MethodPost))
	case pathRevoke:
		return crossOrigin(only(s.tokens.authenticated(s.tokens.revoke), http.MethodPost))
	case pathIntrospect:
		return only(s.tokens.authenticated(s.tokens.introspect), http.MethodPost)
	}
	return nil
}

// Navigable reports whether pages of other sites lead browsers to a path: clients begin a
// login, and upstream providers send the person back.
func (s *Server) Navigable(path string) bool {
	below := strings.TrimPrefix(path, s.issuerPath)
	return below == pathAuthorize || below == pathLogin || slices.Contains(s.callbacks, path)
}

// only refuses other methods.
func only(h http.HandlerFunc, methods ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(methods, r.Method) {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		h(w, r)
	}
}

// crossOrigin lets clients in browsers read the response, and answers their preflights. No
// cookie counts at these endpoints.
func crossOrigin(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		if r.Method == http.MethodOptions {
			w.Header().Set("Access-Control-Allow-Methods", "GET, POST")
			w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type, MCP-Protocol-Version")
			w.Header().Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		h(w, r)
	}
}

// oauthError is an error that a client receives (RFC 6749 section 5.2).
type oauthError struct {
	code, description string
	status            int // 0 is 400
}

var unavailableError = &oauthError{code: "temporarily_unavailable", description: "the server cannot reach its storage; try again later", status: http.StatusServiceUnavailable}

// tooMany is the error for a sender that is over a limit (RFC 6585 section 4).
func tooMany(what string) *oauthError {
	return &oauthError{code: "temporarily_unavailable", description: "too many " + what + " from this address; try again later", status: http.StatusTooManyRequests}
}

func writeError(w http.ResponseWriter, status int, e *oauthError) {
	switch status {
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "5")
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "10")
	}
	writeJSON(w, status, map[string]string{"error": e.code, "error_description": e.description})
}

// fail sends an error to a client.
func (s *core) fail(w http.ResponseWriter, e *oauthError) {
	status := cmp.Or(e.status, http.StatusBadRequest)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="token endpoint"`)
	}
	writeError(w, status, e)
}

// unavailable sends the error of keys or a store that cannot be used.
func (s *core) unavailable(w http.ResponseWriter, err error) {
	s.cfg.Log.Error("a request of a client failed", "error", err)
	writeError(w, http.StatusServiceUnavailable, unavailableError)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client left
}
