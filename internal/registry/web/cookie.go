package web

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/toolhaven/toolhaven/internal/auth"
)

// The cookies, by purpose. A value is sealed for one purpose.
const (
	sessionCookie = "thv-session"
	attemptCookie = "thv-login"
	failureCookie = "thv-login-failure"
)

const (
	// maxSession bounds the lifetime of a session, which also ends when its access
	// token expires.
	maxSession = 8 * time.Hour
	// unknownSession is the lifetime when that of the token is unknown.
	unknownSession = time.Hour
	attemptTime    = 10 * time.Minute
	failureTime    = time.Minute
)

// cookies sets and reads the sealed cookies of the pages.
type cookies struct {
	at   location
	seal *sealer
}

// name has the prefix with which browsers accept a cookie only from this host and
// over HTTPS (RFC 6265bis section 4.1.3).
func (c cookies) name(purpose string) string {
	switch {
	case !c.at.https():
		return purpose
	case c.at.prefix == "":
		return "__Host-" + purpose
	}
	return "__Secure-" + purpose
}

func (c cookies) cookie(purpose, value string, lasts time.Duration) *http.Cookie {
	out := &http.Cookie{
		Name: c.name(purpose), Value: value, Path: cmp.Or(c.at.prefix, "/"), MaxAge: int(lasts / time.Second),
		Secure: c.at.https(), HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	if lasts <= 0 {
		out.MaxAge = -1
	}
	return out
}

func (c cookies) set(w http.ResponseWriter, r *http.Request, purpose string, v any, lasts time.Duration) error {
	value, err := c.seal.close(r.Context(), purpose, v)
	if err != nil {
		return err
	}
	http.SetCookie(w, c.cookie(purpose, value, lasts))
	return nil
}

func (c cookies) drop(w http.ResponseWriter, purpose string) {
	http.SetCookie(w, c.cookie(purpose, "", 0))
}

// maxSameName bounds how many cookies of one name are read: a server of a parent domain
// can add some.
const maxSameName = 4

// readCookie returns the first cookie for the purpose that this site sealed and for
// which good holds. found is false when there is none.
func readCookie[T any](c cookies, r *http.Request, purpose string, good func(T) bool) (v T, found bool, err error) {
	for i, sent := range r.CookiesNamed(c.name(purpose)) {
		if i == maxSameName {
			break
		}
		var candidate T
		err := c.seal.open(r.Context(), purpose, sent.Value, &candidate)
		if err != nil && !errors.Is(err, errCookie) {
			return v, false, err
		}
		if err == nil && good(candidate) {
			return candidate, true, nil
		}
	}
	return v, false, nil
}

// session is the sealed cookie of a visitor who signed in.
type session struct {
	Provider string         `json:"p"`
	Issuer   string         `json:"i"`
	Subject  string         `json:"s"`
	Scopes   []string       `json:"c,omitempty"`
	Claims   map[string]any `json:"a,omitempty"`
	Expires  int64          `json:"e"` // Unix time
}

// newSession returns the session of an identity, with the claims that authorization
// uses, and how long it lasts.
func (s *signIn) newSession(id *auth.Identity) (session, time.Duration) {
	now := s.opt.Now()
	lasts := unknownSession
	if !id.Expires.IsZero() {
		lasts = min(id.Expires.Sub(now), maxSession)
	}
	out := session{
		Provider: id.Provider, Issuer: id.Issuer, Subject: id.Subject, Scopes: id.Scopes,
		Claims: map[string]any{}, Expires: now.Add(lasts).Unix(),
	}
	for _, name := range s.opt.KeepClaims {
		if v, ok := id.Claims[name]; ok {
			out.Claims[name] = v
		}
	}
	return out, lasts
}

// session returns the identity of a visitor who has signed in, or nil. The error is
// that the key of cookies is not available.
func (s *signIn) session(r *http.Request) (*auth.Identity, error) {
	got, found, err := readCookie(s.cookies, r, sessionCookie, func(c session) bool {
		// Sessions of a provider that is no longer configured are invalid.
		return c.Expires > s.opt.Now().Unix() && c.Provider == s.provider.Provider && c.Issuer == s.provider.Issuer
	})
	if err != nil || !found {
		return nil, err
	}
	return &auth.Identity{
		Provider: got.Provider, Issuer: got.Issuer, Subject: got.Subject, Scopes: got.Scopes,
		Expires: time.Unix(got.Expires, 0), Claims: got.Claims,
	}, nil
}
