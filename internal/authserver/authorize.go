package authserver

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
	"github.com/toolhaven/toolhaven/internal/authserver/upstream"
	"github.com/toolhaven/toolhaven/internal/authserver/vault"
)

const (
	loginLifetime   = 10 * time.Minute
	consentLifetime = 90 * 24 * time.Hour
	maxState        = 4096 // bytes of a client's state
)

// step is what a login waits for. Each step has a new handle, which is used once.
type step string

const (
	stepStart    step = "start"    // the browser, at the host of the callback
	stepUpstream step = "upstream" // an upstream provider's answer
	stepConnect  step = "connect"  // the choice of further providers
	stepConsent  step = "consent"  // the person's consent
)

// login is a login under way.
type login struct {
	Step     step     `json:"step"`
	Client   string   `json:"client"`
	Name     string   `json:"name"`              // of the client
	Voucher  string   `json:"voucher,omitempty"` // of the client
	Refresh  bool     `json:"refresh"`
	Redirect string   `json:"redirect"`
	State    string   `json:"state,omitempty"`
	Code     string   `json:"challenge"`
	Nonce    string   `json:"nonce,omitempty"`
	Scopes   []string `json:"scopes"`
	// Browser is the hash of the cookie of the browser that the login belongs to.
	Browser string `json:"browser,omitempty"`
	// Provider is where the browser was sent, with Attempt.
	Provider string           `json:"provider,omitempty"`
	Attempt  upstream.Attempt `json:"attempt,omitzero"`
	// Done are the providers where the person signed in, the primary one first.
	Done    []signedIn `json:"done,omitempty"`
	Skipped bool       `json:"skipped,omitempty"` // the person goes on without the others
	person
}

// person is who signed in at the primary provider.
type person struct {
	Subject string `json:"subject,omitempty"`
	Full    string `json:"fullName,omitempty"`
	Email   string `json:"email,omitempty"`
	At      int64  `json:"at,omitempty"` // Unix time
}

type signedIn struct {
	Provider string          `json:"provider"`
	Tokens   upstream.Tokens `json:"tokens"`
}

// challengePattern is RFC 7636 section 4.2 for S256: 32 bytes in base64url.
var challengePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// authorize is the authorization endpoint (RFC 6749 section 3.1). Faults of the client or its
// redirect URI are shown to the person; others are sent to the client.
func (s *logins) authorize(w http.ResponseWriter, r *http.Request) {
	if !s.starts.allow(s.cfg.Address(r)) {
		s.tooManyPage(w, r, errors.New("too many logins from an address"))
		return
	}
	if err := r.ParseForm(); err != nil {
		s.errorPage(w, r, http.StatusBadRequest, "The request cannot be read.", err)
		return
	}
	q := r.URL.Query()
	if r.Method == http.MethodPost {
		q = r.PostForm
	}
	for name, values := range q {
		if len(values) > 1 && name != "resource" { // RFC 6749 section 3.1
			s.errorPage(w, r, http.StatusBadRequest, "The application sent a parameter twice.", errors.New("repeated parameter"))
			return
		}
	}
	c, err := s.clients.get(r, q.Get("client_id"))
	switch {
	case errors.Is(err, errUnavailable):
		s.errorPage(w, r, http.StatusServiceUnavailable, "The login is not available now. Try again in a minute.", err)
		return
	case errors.Is(err, errTooMany):
		s.tooManyPage(w, r, err)
		return
	case err != nil:
		s.errorPage(w, r, http.StatusBadRequest, "The application is not known here. Remove its stored login, and connect again.", err)
		return
	}
	redirect := q.Get("redirect_uri")
	if redirect == "" && len(c.Redirects) == 1 {
		redirect = c.Redirects[0]
	}
	if !slices.ContainsFunc(c.Redirects, func(registered string) bool { return sameRedirect(registered, redirect) }) {
		s.errorPage(w, r, http.StatusBadRequest, "The application did not register the address that it returns to.", errors.New("redirect_uri is not registered"))
		return
	}
	l := &login{Client: c.ID, Name: c.Name, Voucher: c.Voucher, Refresh: c.Refresh, Redirect: redirect, State: q.Get("state"), Code: q.Get("code_challenge"), Nonce: q.Get("nonce")}
	if fault := s.checkAuthorize(l, q); fault != nil {
		s.refuseEarly(w, r, l, fault)
		return
	}
	if browserOrigin(s.authorizeBase) != browserOrigin(s.browserBase) {
		// The cookie that binds the login to this browser must be of the callback's host.
		handle, err := s.next(r.Context(), l, stepStart)
		if err != nil {
			s.errorPage(w, r, http.StatusServiceUnavailable, "The login is not available now. Try again in a minute.", err)
			return
		}
		http.Redirect(w, r, s.browserBase+pathLogin+"?login="+handle, http.StatusSeeOther)
		return
	}
	s.proceed(w, r, l, "")
}

// tooManyPage is shown when a sender is over a limit.
func (s *logins) tooManyPage(w http.ResponseWriter, r *http.Request, err error) {
	s.errorPage(w, r, http.StatusTooManyRequests, "There were too many logins from your address. Try again in a minute.", err)
}

// checkAuthorize checks what is reported to the client.
func (s *logins) checkAuthorize(l *login, q url.Values) *oauthError {
	switch {
	case len(l.State) > maxState || len(l.Nonce) > maxState:
		l.State = ""
		return &oauthError{code: "invalid_request", description: "state or nonce is too long"}
	case q.Get("response_type") != "code":
		return &oauthError{code: "unsupported_response_type", description: "response_type must be code"}
	case q.Get("response_mode") != "" && q.Get("response_mode") != "query":
		return &oauthError{code: "invalid_request", description: "response_mode must be query"}
	case q.Has("request") || q.Has("request_uri"): // OpenID Connect Core section 6
		return &oauthError{code: "request_not_supported", description: "request objects are not supported"}
	case q.Get("code_challenge_method") != "S256" || !challengePattern.MatchString(l.Code): // RFC 7636 section 4.4.1
		return &oauthError{code: "invalid_request", description: "PKCE with code_challenge_method S256 is required"}
	case slices.Contains(strings.Fields(q.Get("prompt")), "none"):
		return &oauthError{code: "login_required", description: "a login needs the person"}
	}
	for _, resource := range q["resource"] {
		if !s.isResource(resource) {
			return invalidTarget
		}
	}
	l.Scopes = s.scopesFor(strings.Fields(q.Get("scope")), false)
	if len(l.Scopes) == 0 {
		return &oauthError{code: "invalid_scope", description: "none of the scopes is supported"}
	}
	return nil
}

var invalidTarget = &oauthError{code: "invalid_target", description: "the resource is not one of this server"} // RFC 8707 section 2

// isResource compares a resource indicator; a slash at its end does not count.
func (s *core) isResource(resource string) bool {
	return strings.TrimSuffix(resource, "/") == strings.TrimSuffix(s.cfg.Resource, "/")
}

// next stores a login for its next step, and returns the handle.
func (s *core) next(ctx context.Context, l *login, at step) (handle string, err error) {
	l.Step = at
	handle = random()
	return handle, s.put(ctx, kindLogin, handle, l, loginLifetime)
}

// resume takes the login of a handle. It belongs to the browser that started it: else a
// person could be led to complete another one's login (RFC 9700 section 4.7).
func (s *logins) resume(w http.ResponseWriter, r *http.Request, handle string, at step) *login {
	l := &login{}
	err := s.take(r.Context(), kindLogin, handle, l)
	switch {
	case errors.Is(err, errUnavailable):
		s.errorPage(w, r, http.StatusServiceUnavailable, "The login is not available now. Start it again in a minute.", err)
		return nil
	case err == nil && l.Step != at:
		err = errors.New("the handle is of another step")
	case err == nil && at != stepStart && l.Browser != hashed(s.browser(r)):
		s.errorPage(w, r, http.StatusForbidden, "The login was started in another browser. Start it again in the application.", errors.New("the browser's cookie does not match"))
		return nil
	}
	if err != nil {
		s.errorPage(w, r, http.StatusBadRequest, "The login has expired or was already used. Start it again in the application.", err)
		return nil
	}
	return l
}

// cookieName is the browser's. __Host- keeps other hosts from setting it (RFC 6265bis
// section 4.1.3.2).
func (s *core) cookieName() string {
	if s.secure {
		return "__Host-thv-login"
	}
	return "thv-login"
}

// browser is the value of the browser's cookie, "" without one.
func (s *logins) browser(r *http.Request) string {
	c, err := r.Cookie(s.cookieName())
	if err != nil || len(c.Value) < 43 || len(c.Value) > 64 {
		return ""
	}
	return c.Value
}

// login is where a login continues when the authorization endpoint is of another host.
func (s *logins) login(w http.ResponseWriter, r *http.Request) {
	if l := s.resume(w, r, r.URL.Query().Get("login"), stepStart); l != nil {
		s.proceed(w, r, l, "")
	}
}

// proceed leads the browser to what the login lacks: the primary provider, the choice of
// others, consent, and the client. notice is shown with the choice.
func (s *logins) proceed(w http.ResponseWriter, r *http.Request, l *login, notice string) {
	if l.Browser == "" {
		value := s.browser(r)
		if value == "" {
			value = random()
			http.SetCookie(w, &http.Cookie{
				Name: s.cookieName(), Value: value, Path: "/", HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode,
				MaxAge: int((24 * time.Hour).Seconds()),
			})
		}
		l.Browser = hashed(value)
	}
	switch missing := s.missing(l); {
	case len(l.Done) == 0:
		s.toUpstream(w, r, l, s.upstreams[0])
	case len(missing) > 0 && !l.Skipped:
		s.askConnect(w, r, l, missing, notice)
	case s.consented(r.Context(), l):
		s.finish(w, r, l)
	default:
		s.askConsent(w, r, l)
	}
}

// missing are the names of the providers where the person has not signed in.
func (s *logins) missing(l *login) []string {
	var names []string
	for _, u := range s.upstreams {
		if !slices.ContainsFunc(l.Done, func(d signedIn) bool { return d.Provider == u.Name() }) {
			names = append(names, u.Name())
		}
	}
	return names
}

// toUpstream sends the browser to a provider.
func (s *logins) toUpstream(w http.ResponseWriter, r *http.Request, l *login, u Upstream) {
	state := random()
	location, attempt, err := u.Authorize(r.Context(), state)
	if err != nil {
		s.cfg.Log.Warn("an upstream provider cannot be used", "provider", u.Name(), "error", err)
		s.upstreamFailed(w, r, l, u.Name(), err)
		return
	}
	l.Provider, l.Attempt, l.Step = u.Name(), attempt, stepUpstream
	if err := s.put(r.Context(), kindLogin, state, l, loginLifetime); err != nil {
		s.errorPage(w, r, http.StatusServiceUnavailable, "The login is not available now. Start it again in a minute.", err)
		return
	}
	http.Redirect(w, r, location, http.StatusSeeOther)
}

// upstreamFailed ends a login at the primary provider. Without another one it goes on: one
// provider's failure concerns only the calls that need it.
func (s *logins) upstreamFailed(w http.ResponseWriter, r *http.Request, l *login, name string, err error) {
	fault, notice := &oauthError{code: "server_error", description: "the identity provider's answer cannot be used"}, "sent an answer that cannot be used"
	switch {
	case errors.Is(err, upstream.ErrDenied):
		fault, notice = &oauthError{code: "access_denied", description: "the login at the identity provider was refused"}, "refused the login"
	case errors.Is(err, upstream.ErrUnavailable), errors.Is(err, upstream.ErrExpired):
		fault, notice = &oauthError{code: "temporarily_unavailable", description: "the identity provider cannot be reached"}, "cannot be reached now"
	}
	switch {
	case len(l.Done) > 0:
		s.proceed(w, r, l, name+" "+notice+".")
	case l.Step == stepUpstream:
		s.redirectError(w, r, l, fault)
	default:
		s.refuseEarly(w, r, l, fault)
	}
}

// callback is where upstream providers send the browser back.
func (s *logins) callback(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	l := s.resume(w, r, q.Get("state"), stepUpstream)
	if l == nil {
		return
	}
	u := s.upstream(l.Provider)
	if u == nil {
		s.errorPage(w, r, http.StatusBadRequest, "The login's identity provider was removed. Start it again in the application.", errors.New("provider removed"))
		return
	}
	attempt := l.Attempt
	l.Provider, l.Attempt = "", upstream.Attempt{}
	result, err := u.Finish(r.Context(), attempt, q)
	if err != nil {
		s.cfg.Log.Warn("a login at an upstream provider failed", "provider", u.Name(), "error", err)
		s.upstreamFailed(w, r, l, u.Name(), err)
		return
	}
	subject := s.subject(u.Name(), result.Identity)
	if len(l.Done) == 0 {
		l.person = person{Subject: subject, Full: result.Identity.Name, Email: result.Identity.Email, At: s.now().Unix()}
	} else if err := s.link(r.Context(), l.Subject, u.Name(), subject, result.Identity.Synthesized); err != nil {
		if errors.Is(err, errUnavailable) {
			s.errorPage(w, r, http.StatusServiceUnavailable, "The login is not available now. Start it again in a minute.", err)
			return
		}
		s.cfg.Log.Warn("another person signed in at a further provider", "provider", u.Name())
		s.proceed(w, r, l, "At "+u.Name()+", another account than last time signed in. Sign in there as the same person.")
		return
	}
	l.Done = append(l.Done, signedIn{u.Name(), result.Tokens})
	s.proceed(w, r, l, "")
}

// subject is the sub of a person: stable for an account at a provider, and opaque.
func (s *core) subject(provider string, id upstream.Identity) string {
	if id.Synthesized {
		return id.Subject
	}
	return hashed("subject", s.cfg.Spec.Issuer, provider, id.Subject)
}

// errOtherPerson: a person's further account is not the one of the last login.
var errOtherPerson = errors.New("another account of the provider")

// link remembers a person's account at another provider, and refuses a different one.
func (s *logins) link(ctx context.Context, subject, provider, account string, synthesized bool) error {
	if synthesized {
		return nil
	}
	id := hashed(subject, provider)
	var known string
	_, err := s.get(ctx, kindLink, id, &known)
	switch {
	case err == nil && known != account:
		return errOtherPerson
	case err != nil && !errors.Is(err, storage.ErrNotFound):
		return err
	}
	return s.put(ctx, kindLink, id, account, s.lifespans.refresh)
}

// connect receives the choice of further providers.
func (s *logins) connect(w http.ResponseWriter, r *http.Request) {
	if !s.sameOrigin(w, r) {
		return
	}
	l := s.resume(w, r, r.PostForm.Get("login"), stepConnect)
	if l == nil {
		return
	}
	name := r.PostForm.Get("provider")
	if name == "" {
		l.Skipped = true
	} else if u := s.upstream(name); u != nil && slices.Contains(s.missing(l), name) {
		s.toUpstream(w, r, l, u)
		return
	}
	s.proceed(w, r, l, "")
}

// sameOrigin refuses forms of other sites, in addition to the cookie's SameSite and the
// handle (RFC 6749 section 10.12).
func (s *core) sameOrigin(w http.ResponseWriter, r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	if site != "" && site != "same-origin" {
		s.errorPage(w, r, http.StatusForbidden, "The form was sent by another site.", errors.New("cross-site form"))
		return false
	}
	if err := r.ParseForm(); err != nil {
		s.errorPage(w, r, http.StatusBadRequest, "The form cannot be read.", err)
		return false
	}
	return true
}

// grantKey identifies a person's consent to a client: what the client may do, and where it
// returns to.
func grantKey(l *login) string {
	return hashed(l.Subject, l.Client, l.Redirect, strings.Join(slices.Sorted(slices.Values(l.Scopes)), " "))
}

// consented reports whether the person consented to this client before. A client on the
// person's machine is asked about each time: another program could take its place (RFC 8252
// section 8.6). So is one of a person who has no lasting identity.
func (s *logins) consented(ctx context.Context, l *login) bool {
	if redirectsHere(l.Redirect) {
		return false
	}
	var yes bool
	_, err := s.get(ctx, kindConsent, grantKey(l), &yes)
	return err == nil && yes
}

// consent receives the person's decision.
func (s *logins) consent(w http.ResponseWriter, r *http.Request) {
	if !s.sameOrigin(w, r) {
		return
	}
	l := s.resume(w, r, r.PostForm.Get("login"), stepConsent)
	if l == nil {
		return
	}
	if r.PostForm.Get("decision") != "allow" {
		s.redirectError(w, r, l, &oauthError{code: "access_denied", description: "the person refused"})
		return
	}
	if !redirectsHere(l.Redirect) {
		if err := s.put(r.Context(), kindConsent, grantKey(l), true, consentLifetime); err != nil {
			s.cfg.Log.Warn("a consent is not remembered", "error", err)
		}
	}
	s.finish(w, r, l)
}

// finish stores what was gained and sends the client its code.
func (s *logins) finish(w http.ResponseWriter, r *http.Request, l *login) {
	session := random()
	var providers []string
	for _, d := range l.Done {
		binding := vault.Binding{Session: session, Client: l.Client, Provider: d.Provider, Subject: l.Subject}
		if err := s.cfg.Vault.Save(r.Context(), binding, d.Tokens, s.lifespans.refresh+s.lifespans.access); err != nil {
			s.cfg.Log.Error("upstream tokens cannot be stored", "error", err)
			s.redirectError(w, r, l, unavailableError)
			return
		}
		providers = append(providers, d.Provider)
	}
	code := random()
	record := &codeRecord{
		Session: session, Redirect: l.Redirect, Challenge: l.Code, Nonce: l.Nonce,
		grant: grant{Client: l.Client, Refresh: l.Refresh || slices.Contains(l.Scopes, "offline_access"), Scopes: l.Scopes, Providers: providers, person: l.person},
	}
	if err := s.put(r.Context(), kindCode, code, record, s.lifespans.code); err != nil {
		s.redirectError(w, r, l, unavailableError)
		return
	}
	s.cfg.Log.Info("a person logged in", "subject", l.Subject, "client", cmp.Or(l.Name, "without a name"), "providers", providers)
	s.redirect(w, r, l, url.Values{"code": {code}})
}

// redirect sends the browser to the client, with state and iss (RFC 9207 section 2).
func (s *core) redirect(w http.ResponseWriter, r *http.Request, l *login, q url.Values) {
	u, err := url.Parse(l.Redirect)
	if err != nil {
		s.errorPage(w, r, http.StatusBadRequest, "The application's address cannot be used.", err)
		return
	}
	if l.State != "" {
		q.Set("state", l.State)
	}
	q.Set("iss", s.cfg.Spec.Issuer)
	if u.RawQuery != "" { // it is retained (RFC 6749 section 3.1.2)
		u.RawQuery += "&"
	}
	u.RawQuery += q.Encode()
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Location", u.String())
	w.WriteHeader(http.StatusSeeOther) // never 307 (RFC 9700 section 4.12)
}

// refuseEarly reports an error before anyone signed in. Any site can register as a client, so
// a person who followed a link is not sent on to one without a word (RFC 9700 section
// 4.11.2); a program on the person's machine receives the error.
func (s *core) refuseEarly(w http.ResponseWriter, r *http.Request, l *login, e *oauthError) {
	if redirectsHere(l.Redirect) {
		s.redirectError(w, r, l, e)
		return
	}
	s.errorPage(w, r, http.StatusBadRequest, "The application's request was refused: "+e.description+".", errors.New(e.code))
}

// redirectError sends an error to the client (RFC 6749 section 4.1.2.1).
func (s *core) redirectError(w http.ResponseWriter, r *http.Request, l *login, e *oauthError) {
	s.redirect(w, r, l, url.Values{"error": {e.code}, "error_description": {e.description}})
}

func browserOrigin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}
