package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/toolhaven/toolhaven/internal/auth"
)

// attempt is one sign-in under way, in the cookie of the browser that began it:
// so nobody can make a browser finish a sign-in that it has not begun (RFC 6749
// section 10.12), and the server keeps nothing.
type attempt struct {
	State    string `json:"s"`
	Verifier string `json:"v"` // RFC 7636
	Next     string `json:"n"` // the page to go to
	Expires  int64  `json:"e"`
}

// failure is why a sign-in failed, kept for the page that says so.
type failure struct {
	Message string `json:"m"`
	Next    string `json:"n"`
	Expires int64  `json:"e"`
}

// loginURL is where a sign-in begins that ends at one of our pages.
func (s *Site) loginURL(next string) string {
	if next = ownPage(next); next == "/" {
		return s.prefix + "/login"
	}
	return s.prefix + "/login?" + url.Values{"next": {next}}.Encode()
}

const maxNext = 1 << 10

// ownPage is the page that a request names to go to, or the first one where it
// names none of ours: whoever makes the link must not choose a place elsewhere.
func ownPage(raw string) string {
	const first = "/"
	// Browsers read a backslash as a slash and drop tabs and line ends.
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
			"The identity provider does not answer as it should. Try again in a while; whoever runs this registry finds the cause in its log.",
			s.loginURL(r.URL.Query().Get("next")), "Try again",
		})
		return
	}
	to, err := url.Parse(m.Authorization)
	if err != nil {
		s.unavailable(w, r, err)
		return
	}
	a := attempt{State: rand.Text(), Verifier: rand.Text() + rand.Text(), Next: ownPage(r.URL.Query().Get("next")), Expires: s.Now().Add(attemptTime).Unix()}
	if err := s.setCookie(w, r, attemptCookie, a, attemptTime); err != nil {
		s.unavailable(w, r, err)
		return
	}
	challenge := sha256.Sum256([]byte(a.Verifier))
	query := to.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": s.Login.ClientID, "redirect_uri": s.redirectURI(), "state": a.State,
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256",
		"resource": s.ResourceURL, "scope": strings.Join(s.Login.Scopes, " "),
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	to.RawQuery = query.Encode()
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}

// refusal is a reason for which a sign-in failed that the visitor may see.
type refusal struct{ text string }

func (e *refusal) Error() string { return e.text }

// finishLogin takes the provider's answer and goes on to a page without it: the
// address that stays in the browser holds no code, also after a failure.
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
	if found { // an attempt is for one answer
		s.dropCookie(w, attemptCookie)
	}
	if err := s.setCookie(w, r, failureCookie, failure{why.text, ownPage(a.Next), s.Now().Add(failureTime).Unix()}, failureTime); err != nil {
		s.unavailable(w, r, err)
		return
	}
	http.Redirect(w, r, s.redirectURI(), http.StatusSeeOther)
}

// identify makes sure that an answer belongs to an attempt, and finds out who
// signed in. An error that is no *refusal is for the log.
func (s *Site) identify(ctx context.Context, answer url.Values, a attempt) (*auth.Identity, error) {
	for _, name := range []string{"state", "iss", "code", "error", "error_description"} {
		if len(answer[name]) > 1 { // RFC 6749 section 3.1
			return nil, &refusal{"The answer of the identity provider has a parameter twice."}
		}
	}
	if subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(a.State)) != 1 {
		return nil, &refusal{"The answer belongs to another attempt to sign in, perhaps one in another tab."}
	}
	m, err := s.login.metadata(ctx)
	if err != nil {
		return nil, err
	}
	// RFC 9207 section 2.4: compared as it is; it must be there if the provider
	// says that it sends it.
	if iss, there := answer.Get("iss"), answer.Has("iss"); there && iss != s.Login.Issuer || !there && m.SendsIssuer {
		return nil, &refusal{"The answer does not come from the identity provider that was asked."}
	}
	if answer.Has("error") {
		said := answer.Get("error")
		if why := answer.Get("error_description"); why != "" {
			said += ": " + why
		}
		said = "The identity provider says: " + without(said, answer.Get("code"), a.State, a.Verifier)
		if answer.Get("error") == "access_denied" { // RFC 6749 section 4.1.2.1
			said = "You cancelled, or you are not let in here. " + said
		}
		return nil, &refusal{said}
	}
	code := answer.Get("code")
	if code == "" {
		return nil, &refusal{"The answer of the identity provider has no code."}
	}
	token, err := s.login.redeem(ctx, m, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {s.redirectURI()},
		"code_verifier": {a.Verifier}, "resource": {s.ResourceURL},
	})
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

func (s *Site) logRejection(err error) {
	var reasons []string
	var rejection *auth.Rejection
	if errors.As(err, &rejection) {
		reasons = rejection.Reasons()
	}
	s.Log.Warn("the token of a sign-in at the page is refused", "provider", s.Login.Provider, "reasons", reasons)
}

// failed says why the sign-in failed.
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

// logout forgets who the visitor is, in this browser.
func (s *Site) logout(w http.ResponseWriter, r *http.Request) {
	if err := s.origin.Check(r); err != nil {
		s.fail(w, r, http.StatusForbidden, "Not signed out", "The request came from another site.")
		return
	}
	s.dropCookie(w, sessionCookie)
	http.Redirect(w, r, s.prefix+"/", http.StatusSeeOther)
}
