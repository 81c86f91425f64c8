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

// failure is the reason for a failed sign-in, in a cookie for the page that shows it.
type failure struct {
	Message string `json:"m"`
	Next    string `json:"n"`
	Expires int64  `json:"e"`
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

// signIn is the sign-in of visitors and their sessions.
type signIn struct {
	opt      *Options
	at       location
	pages    *renderer
	cookies  cookies
	provider *provider
	origin   *http.CrossOriginProtection
}

func newSignIn(opt *Options, at location, pages *renderer) (*signIn, error) {
	switch {
	case opt.LoginMissing:
		return nil, errors.New("web: there is a login, so it cannot be missing")
	case at.base == "" || opt.ResourceURL == "":
		return nil, errors.New("web: a login needs the URL of the server and of the resource")
	case opt.Validate == nil || opt.MayRead == nil || opt.Key == nil:
		return nil, errors.New("web: a login needs Validate, MayRead and Key")
	}
	s := &signIn{opt: opt, at: at, pages: pages, origin: http.NewCrossOriginProtection()}
	s.cookies = cookies{at, &sealer{key: opt.Key, context: opt.ResourceURL}}
	if err := s.origin.AddTrustedOrigin(at.origin()); err != nil {
		return nil, err
	}
	var err error
	s.provider, err = newProvider(*opt.Login, opt.Now)
	return s, err
}

// start sends the browser to the identity provider.
func (s *signIn) start(w http.ResponseWriter, r *http.Request) {
	m, err := s.provider.metadata(r.Context())
	if err != nil {
		s.opt.Log.Error("signing in at the page is not possible", "provider", s.provider.Provider, "error", err)
		s.pages.failFor(w, r, visitor{}, http.StatusBadGateway, "Signing in is not possible now", problem{
			"The identity provider does not answer as it should. Try again in a while; its operator finds the cause in the log.",
			s.at.login(r.URL.Query().Get("next")), "Try again",
		})
		return
	}
	request := oauth.NewAuthorization(m, s.at.callback())
	a := attempt{State: request.State, Verifier: request.Verifier, Next: ownPage(r.URL.Query().Get("next")), Expires: s.opt.Now().Add(attemptTime).Unix()}
	if err := s.cookies.set(w, r, attemptCookie, a, attemptTime); err != nil {
		s.pages.unavailable(w, r, err)
		return
	}
	http.Redirect(w, r, request.URL(m, s.provider.ClientID, s.opt.ResourceURL, s.provider.Scopes), http.StatusSeeOther)
}

// refusal is the reason for a failed sign-in, as the visitor may see it.
type refusal struct{ text string }

func (e *refusal) Error() string { return e.text }

// finish handles the authorization response and redirects to a page without it:
// the address that stays in the browser holds no code, also after a failure.
func (s *signIn) finish(w http.ResponseWriter, r *http.Request) {
	if r.URL.RawQuery == "" {
		s.failed(w, r)
		return
	}
	ctx := r.Context()
	a, found, err := readCookie(s.cookies, r, attemptCookie, func(a attempt) bool { return a.Expires > s.opt.Now().Unix() })
	if err != nil {
		s.pages.unavailable(w, r, err)
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
		} else if err = s.cookies.set(w, r, sessionCookie, kept, lasts); errors.Is(err, errTooLarge) {
			s.opt.Log.Error("a sign-in does not fit into a cookie", "provider", id.Provider, "subject", id.Subject, "claims", s.opt.KeepClaims)
			err = &refusal{"What your access token says about you is too much for a cookie. The operator can have fewer claims or scopes put into it."}
		}
	}
	if err == nil {
		s.cookies.drop(w, attemptCookie)
		s.opt.Log.Info("signed in at the page", "provider", id.Provider, "subject", id.Subject)
		http.Redirect(w, r, s.at.prefix+ownPage(a.Next), http.StatusSeeOther)
		return
	}
	s.opt.Log.Warn("a sign-in at the page failed", "provider", s.provider.Provider, "error", err)
	var why *refusal
	if !errors.As(err, &why) {
		why = &refusal{"The registry server could not finish it. The reason is in its log."}
	}
	if found { // an attempt is for one response
		s.cookies.drop(w, attemptCookie)
	}
	if err := s.cookies.set(w, r, failureCookie, failure{why.text, ownPage(a.Next), s.opt.Now().Add(failureTime).Unix()}, failureTime); err != nil {
		s.pages.unavailable(w, r, err)
		return
	}
	http.Redirect(w, r, s.at.callback(), http.StatusSeeOther)
}

// identify checks the authorization response to an attempt, and returns who signed
// in. An error that is no *refusal is for the log.
func (s *signIn) identify(ctx context.Context, response url.Values, a attempt) (*auth.Identity, error) {
	m, err := s.provider.metadata(ctx)
	if err != nil {
		return nil, err
	}
	request := &oauth.Authorization{Issuer: m.Issuer, SendsIssuer: m.SendsIssuer, State: a.State, Verifier: a.Verifier, Redirect: s.at.callback()}
	code, err := request.Code(response)
	if err != nil {
		return nil, refusalOf(err)
	}
	token, err := s.provider.redeem(ctx, m, request.Grant(code, s.opt.ResourceURL))
	if err != nil {
		return nil, err
	}
	id, err := s.opt.Validate(ctx, token)
	if err != nil {
		s.logRejection(err)
		return nil, &refusal{"You signed in, but this registry does not accept the access token that came of it. The log of the registry server says why."}
	}
	if id.Provider != s.provider.Provider || id.Issuer != s.provider.Issuer {
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

func (s *signIn) logRejection(err error) {
	var reasons []string
	var rejection *auth.Rejection
	if errors.As(err, &rejection) {
		reasons = rejection.Reasons()
	}
	s.opt.Log.Warn("the token of a sign-in at the page is refused", "provider", s.provider.Provider, "reasons", reasons)
}

// failed shows why the sign-in failed.
func (s *signIn) failed(w http.ResponseWriter, r *http.Request) {
	f, found, err := readCookie(s.cookies, r, failureCookie, func(f failure) bool { return f.Expires > s.opt.Now().Unix() })
	if err != nil {
		s.pages.unavailable(w, r, err)
		return
	}
	if !found {
		f = failure{Message: "This browser keeps no cookies for this page, or it has been open for a while.", Next: "/"}
	}
	s.cookies.drop(w, failureCookie)
	s.pages.show(w, r, http.StatusBadRequest, "sign-in-failed", visitor{}, "Signing in did not work", map[string]string{
		"Message": f.Message, "Login": s.at.login(f.Next),
	})
}

// logout deletes the session of this browser.
func (s *signIn) logout(w http.ResponseWriter, r *http.Request) {
	if err := s.origin.Check(r); err != nil {
		s.pages.fail(w, r, http.StatusForbidden, "Not signed out", "The request came from another site.")
		return
	}
	s.cookies.drop(w, sessionCookie)
	http.Redirect(w, r, s.at.prefix+"/", http.StatusSeeOther)
}
