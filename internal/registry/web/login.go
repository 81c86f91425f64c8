package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/toolhaven/toolhaven/internal/auth"
	"github.com/toolhaven/toolhaven/internal/oauth"
)

// attempt is one sign-in in progress, in a cookie of the browser that started it: a
// browser cannot be made to finish a sign-in that it did not start (RFC 6749 section
// 10.12), and the server keeps no state.
type attempt struct {
	State    string `json:"s"`
	Verifier string `json:"v"` // RFC 7636
	Next     string `json:"n"` // the page to redirect to
	Expires  int64  `json:"e"`
}

// failure is the reason for a failed sign-in, for the page that shows it.
type failure struct {
	Message string `json:"m"`
	Next    string `json:"n"`
	Expires int64  `json:"e"`
}

// loginURL is where a sign-in starts that returns to the page next.
func (s *Site) loginURL(next string) string {
	if next = ownPage(next); next == "/" {
		return s.prefix + "/login"
	}
	return s.prefix + "/login?" + url.Values{"next": {next}}.Encode()
}

const maxNext = 1 << 10

// ownPage is the page of this site that raw names, or else the first page: a link must
// not redirect to another site.
func ownPage(raw string) string {
	const first = "/"
	// Browsers read a backslash as a slash and remove tabs and line breaks.
	if len(raw) > maxNext || strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }) {
		return first
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || path.Clean(u.Path) != u.Path {
		return first
	}
	if u.Path != "/" && !strings.HasPrefix(u.Path, "/catalog/") && !strings.HasPrefix(u.Path, "/server/") {
		return first
	}
	if u.RawQuery == "" {
		return u.EscapedPath()
	}
	return u.EscapedPath() + "?" + u.RawQuery
}

func (s *Site) redirectURI() string { return s.base + "/login/callback" }

// startLogin sends the browser to the identity provider.
func (s *Site) startLogin(w http.ResponseWriter, r *http.Request) {
	m, err := s.login.metadata(r.Context())
	if err != nil {
		s.Log.Error("signing in at the page is not possible", "provider", s.Login.Provider, "error", err)
		s.failFor(w, r, visitor{}, http.StatusBadGateway, "Signing in is not possible now", problem{
			"The identity provider does not answer as it should. Try again in a while; its operator finds the cause in the log.",
			s.loginURL(r.URL.Query().Get("next")), "Try again",
		})
		return
	}
	request := oauth.NewAuthorization(m, s.redirectURI())
	a := attempt{State: request.State, Verifier: request.Verifier, Next: ownPage(r.URL.Query().Get("next")), Expires: s.Now().Add(attemptTime).Unix()}
	if err := s.setCookie(w, r, attemptCookie, a, attemptTime); err != nil {
		s.unavailable(w, r, err)
		return
	}
	http.Redirect(w, r, request.URL(m, s.Login.ClientID, s.ResourceURL, s.Login.Scopes), http.StatusSeeOther)
}

// refusal is the reason for a failed sign-in, as the visitor may see it.
type refusal struct{ text string }

func (e *refusal) Error() string { return e.text }

// finishLogin handles the authorization response and redirects to a page without it:
// the address that stays in the browser holds no code, also after a failure.
func (s *Site) finishLogin(w http.ResponseWriter, r *http.Request) {
	if r.URL.RawQuery == "" {
		s.failed(w, r)
		return
	}
	ctx := r.Context()
	a, found, err := readCookie(s, r, attemptCookie, func(a attempt) bool { return a.Expires > s.Now().Unix() })
	if err != nil {
		s.unavailable(w, r, err)
		return
	}
	var id *auth.Identity
	if found {
		id, err = s.identify(ctx, r.URL.Query(), a)
	} else {
		err = &refusal{"This browser has not begun to sign in, or more than ten minutes ago, or it keeps no cookies for this page."}
	}
	if err == nil {
		kept, lasts := s.newSession(id)
		if lasts <= 0 {
			err = &refusal{"The identity provider gave an access token that has expired already."}
		} else if err = s.setCookie(w, r, sessionCookie, kept, lasts); errors.Is(err, errTooLarge) {
			s.Log.Error("a sign-in does not fit into a cookie", "provider", id.Provider, "subject", id.Subject, "claims", s.KeepClaims)
			err = &refusal{"What your access token says about you is too much for a cookie. The operator can have fewer claims or scopes put into it."}
		}
	}
	if err == nil {
		s.dropCookie(w, attemptCookie)
		s.Log.Info("signed in at the page", "provider", id.Provider, "subject", id.Subject)
		http.Redirect(w, r, s.prefix+ownPage(a.Next), http.StatusSeeOther)
		return
	}
	s.Log.Warn("a sign-in at the page failed", "provider", s.Login.Provider, "error", err)
	var why *refusal
	if !errors.As(err, &why) {
		why = &refusal{"The registry server could not finish it. Its log says why."}
	}
	if found { // an attempt is for one response
		s.dropCookie(w, attemptCookie)
	}
	if err := s.setCookie(w, r, failureCookie, failure{why.text, ownPage(a.Next), s.Now().Add(failureTime).Unix()}, failureTime); err != nil {
		s.unavailable(w, r, err)
		return
	}
	http.Redirect(w, r, s.redirectURI(), http.StatusSeeOther)
}

// identify checks the authorization response to an attempt, and returns who signed
// in. An error that is no *refusal is for the log.
func (s *Site) identify(ctx context.Context, response url.Values, a attempt) (*auth.Identity, error) {
	m, err := s.login.metadata(ctx)
	if err != nil {
		return nil, err
	}
	request := &oauth.Authorization{Issuer: m.Issuer, SendsIssuer: m.SendsIssuer, State: a.State, Verifier: a.Verifier, Redirect: s.redirectURI()}
	code, err := request.Code(response)
	if err != nil {
		return nil, refusalOf(err)
	}
	token, err := s.login.redeem(ctx, m, request.Grant(code, s.ResourceURL))
	if err != nil {
		return nil, err
	}
	id, err := s.Validate(ctx, token)
	if err != nil {
		s.logRejection(err)
		return nil, &refusal{"You signed in, but this registry does not accept the access token that came of it. The log of the registry server says why."}
	}
	if id.Provider != s.Login.Provider || id.Issuer != s.Login.Issuer {
		return nil, &refusal{"The access token is another provider's than the one you signed in at."}
	}
	return id, nil
}

// refusalOf is a fault of an authorization response as the visitor may see it.
func refusalOf(err error) *refusal {
	var refused *oauth.Refusal
	switch {
	case errors.As(err, &refused):
		text := "The identity provider says: " + refused.Code
		if refused.Description != "" {
			text += ": " + refused.Description
		}
		if refused.Code == "access_denied" { // RFC 6749 section 4.1.2.1
			text = "You cancelled, or you are not let in here. " + text
		}
		return &refusal{clean(text, 3*maxShown)}
	case errors.Is(err, oauth.ErrRepeated):
		return &refusal{"The answer of the identity provider has a parameter twice."}
	case errors.Is(err, oauth.ErrState):
		return &refusal{"The answer belongs to another attempt to sign in, perhaps one in another tab."}
	case errors.Is(err, oauth.ErrIssuer):
		return &refusal{"The answer does not come from the identity provider that was asked."}
	}
	return &refusal{"The answer of the identity provider has no code."}
}

func (s *Site) logRejection(err error) {
	var reasons []string
	var rejection *auth.Rejection
	if errors.As(err, &rejection) {
		reasons = rejection.Reasons()
	}
	s.Log.Warn("the token of a sign-in at the page is refused", "provider", s.Login.Provider, "reasons", reasons)
}

// failed shows why the sign-in failed.
func (s *Site) failed(w http.ResponseWriter, r *http.Request) {
	f, found, err := readCookie(s, r, failureCookie, func(f failure) bool { return f.Expires > s.Now().Unix() })
	if err != nil {
		s.unavailable(w, r, err)
		return
	}
	if !found {
		f = failure{Message: "This browser keeps no cookies for this page, or it has been open for a while.", Next: "/"}
	}
	s.dropCookie(w, failureCookie)
	s.show(w, r, http.StatusBadRequest, "sign-in-failed", visitor{}, "Signing in did not work", map[string]string{
		"Message": f.Message, "Login": s.loginURL(f.Next),
	})
}

// logout deletes the session of this browser.
func (s *Site) logout(w http.ResponseWriter, r *http.Request) {
	if err := s.origin.Check(r); err != nil {
		s.fail(w, r, http.StatusForbidden, "Not signed out", "The request came from another site.")
		return
	}
	s.dropCookie(w, sessionCookie)
	http.Redirect(w, r, s.prefix+"/", http.StatusSeeOther)
}
