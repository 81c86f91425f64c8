package oauth

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"

	"golang.org/x/oauth2"
)

// Authorization is one authorization request, and what its response must match. The
// issuer is noted before the browser leaves (MCP authorization, "Authorization
// Response Validation").
type Authorization struct {
	Issuer      string
	SendsIssuer bool // see Metadata
	State       string
	Verifier    string // of PKCE (RFC 7636)
	Redirect    string // the redirect URI
	ScopeParam  string // the name of the parameter with the scopes; "" is scope
	// Params are further parameters, such as prompt (OpenID Connect Core section 3.1.2.1).
	// One that the URL of the endpoint has is not replaced.
	Params map[string]string
}

// NewAuthorization makes a request with a new state and verifier.
func NewAuthorization(m *Metadata, redirect string) *Authorization {
	return &Authorization{Issuer: m.Issuer, SendsIssuer: m.SendsIssuer, State: rand.Text(), Verifier: oauth2.GenerateVerifier(), Redirect: redirect}
}

// URL is where the browser goes (RFC 6749 section 4.1.1, RFC 7636 section 4.3, RFC
// 8707 section 2.1). With resource "" no resource is named.
func (a *Authorization) URL(m *Metadata, clientID, resource string, scopes []string) string {
	var options []oauth2.AuthCodeOption
	if a.ScopeParam != "" && len(scopes) > 0 {
		options = append(options, oauth2.SetAuthURLParam(a.ScopeParam, strings.Join(scopes, " ")))
		scopes = nil
	}
	conf := oauth2.Config{ClientID: clientID, RedirectURL: a.Redirect, Scopes: scopes, Endpoint: oauth2.Endpoint{AuthURL: m.Authorization}}
	options = append(options, oauth2.S256ChallengeOption(a.Verifier))
	if resource != "" {
		options = append(options, oauth2.SetAuthURLParam("resource", resource))
	}
	for name, value := range a.missing(m.Authorization) {
		options = append(options, oauth2.SetAuthURLParam(name, value))
	}
	return conf.AuthCodeURL(a.State, options...)
}

// missing returns the Params that the URL of the authorization endpoint does not have.
func (a *Authorization) missing(endpoint string) map[string]string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return a.Params
	}
	params := maps.Clone(a.Params)
	for name := range u.Query() {
		delete(params, name)
	}
	return params
}

// Faults of an authorization response.
var (
	// ErrRepeated: a parameter is repeated (RFC 6749 section 3.1).
	ErrRepeated = errors.New("its answer has a parameter twice")
	// ErrState: the response belongs to another request (RFC 6749 section 10.12).
	ErrState = errors.New("its answer belongs to another sign-in")
	// ErrIssuer: the response is of another issuer (RFC 9207 section 2.4).
	ErrIssuer = errors.New("its answer is of another issuer")
	// ErrNoCode: the response has neither a code nor an error.
	ErrNoCode = errors.New("its answer has neither a code nor an error")
)

// Code is the code of an authorization response. The error is one of the above, or
// a *Refusal. After ErrRepeated and ErrState the request is still open: anyone can
// send such a response.
func (a *Authorization) Code(response url.Values) (string, error) {
	for _, name := range []string{"code", "state", "iss", "error", "error_description"} {
		if len(response[name]) > 1 {
			return "", ErrRepeated
		}
	}
	if subtle.ConstantTimeCompare([]byte(response.Get("state")), []byte(a.State)) != 1 {
		return "", ErrState
	}
	// Before anything else of the response is used or shown; a comparison of bytes.
	switch got := response.Get("iss"); {
	case a.Issuer == "": // the server has no metadata that would name it
	case response.Has("iss") && got != a.Issuer:
		return "", fmt.Errorf("%w: expected %q, got %q; the sign-in was not used", ErrIssuer, Hide(a.Issuer), Hide(got))
	case !response.Has("iss") && a.SendsIssuer:
		return "", fmt.Errorf("%w, or of none: it does not say which issuer it is of, though %s always does; the sign-in was not used", ErrIssuer, Hide(a.Issuer))
	}
	code := response.Get("code")
	if response.Get("error") != "" {
		secrets := []string{a.State, a.Verifier, code}
		return "", &Refusal{Code: Hide(response.Get("error"), secrets...), Description: Hide(response.Get("error_description"), secrets...)}
	}
	if code == "" {
		return "", ErrNoCode
	}
	return code, nil
}

// Grant are the parameters of the token request for a code (RFC 6749 section 4.1.3).
func (a *Authorization) Grant(code, resource string) url.Values {
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {a.Redirect}, "code_verifier": {a.Verifier},
	}
	if resource != "" {
		form.Set("resource", resource)
	}
	return form
}
