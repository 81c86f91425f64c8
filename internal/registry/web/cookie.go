package web

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/auth"
)

// The cookies, by purpose. A purpose is part of what a value is sealed for.
const (
	sessionCookie = "thv-session"
	attemptCookie = "thv-login"
	failureCookie = "thv-login-failure"
)

const (
	// maxSession is how long a sign-in lasts at most; it ends with the token
	// that it was made from.
	maxSession = 8 * time.Hour
	// unknownSession is how long it lasts when the token's lifetime is unknown.
	unknownSession = time.Hour
	attemptTime    = 10 * time.Minute
	failureTime    = time.Minute
)

// cookieName has the prefix with which browsers accept a cookie only from this host and
// over HTTPS (RFC 6265bis section 4.1.3).
func (s *Site) cookieName(purpose string) string {
	switch {
	case !strings.HasPrefix(s.base, "https://"):
		return purpose
	case s.prefix == "":
		return "__Host-" + purpose
	}
	return "__Secure-" + purpose
}

func (s *Site) cookie(purpose, value string, lasts time.Duration) *http.Cookie {
	c := &http.Cookie{
		Name: s.cookieName(purpose), Value: value, Path: cmp.Or(s.prefix, "/"), MaxAge: int(lasts / time.Second),
		Secure: strings.HasPrefix(s.base, "https://"), HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	if lasts <= 0 {
		c.MaxAge = -1
	}
	return c
}

func (s *Site) setCookie(w http.ResponseWriter, r *http.Request, purpose string, v any, lasts time.Duration) error {
	value, err := s.seal.close(r.Context(), purpose, v)
	if err != nil {
		return err
	}
	http.SetCookie(w, s.cookie(purpose, value, lasts))
	return nil
}

func (s *Site) dropCookie(w http.ResponseWriter, purpose string) {
	http.SetCookie(w, s.cookie(purpose, "", 0))
}

// maxSameName bounds how many cookies of one name are read: a server of a parent domain
// can add some.
const maxSameName = 4

// readCookie returns the first cookie for the purpose that this site sealed and for
// which good holds. found is false when there is none.
func readCookie[T any](s *Site, r *http.Request, purpose string, good func(T) bool) (v T, found bool, err error) {
	for i, c := range r.CookiesNamed(s.cookieName(purpose)) {
		if i == maxSameName {
			break
		}
		var candidate T
		err := s.seal.open(r.Context(), purpose, c.Value, &candidate)
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
func (s *Site) newSession(id *auth.Identity) (session, time.Duration) {
	now := s.Now()
	lasts := unknownSession
	if !id.Expires.IsZero() {
		lasts = min(id.Expires.Sub(now), maxSession)
	}
	out := session{
		Provider: id.Provider, Issuer: id.Issuer, Subject: id.Subject, Scopes: id.Scopes,
		Claims: map[string]any{}, Expires: now.Add(lasts).Unix(),
	}
	for _, name := range s.KeepClaims {
		if v, ok := id.Claims[name]; ok {
			out.Claims[name] = v
		}
	}
	return out, lasts
}

// session returns the identity of a visitor who has signed in, or nil. The error is
// that the key of cookies is not available.
func (s *Site) session(r *http.Request) (*auth.Identity, error) {
	got, found, err := readCookie(s, r, sessionCookie, func(c session) bool {
		// Sessions of a provider that is no longer configured are invalid.
		return c.Expires > s.Now().Unix() && c.Provider == s.Login.Provider && c.Issuer == s.Login.Issuer
	})
	if err != nil || !found {
		return nil, err
	}
	return &auth.Identity{
		Provider: got.Provider, Issuer: got.Issuer, Subject: got.Subject, Scopes: got.Scopes,
		Expires: time.Unix(got.Expires, 0), Claims: got.Claims,
	}, nil
}
