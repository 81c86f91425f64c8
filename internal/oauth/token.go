package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// The methods of client authentication (RFC 7591 section 2).
const (
	MethodNone  = "none"
	MethodBasic = "client_secret_basic"
	MethodPost  = "client_secret_post"
)

// Method is how a client with a secret authenticates at the server.
func (m *Metadata) Method() (string, error) {
	switch {
	case m.AuthMethods == nil, slices.Contains(m.AuthMethods, MethodBasic): // RFC 8414 section 2: the default
		return MethodBasic, nil
	case slices.Contains(m.AuthMethods, MethodPost):
		return MethodPost, nil
	}
	return "", fmt.Errorf("%s supports none of thv's ways to send a client secret, only %s", Hide(m.Issuer), Hide(strings.Join(m.AuthMethods, ", ")))
}

// Client is a client with its credential. Its secret may be "".
type Client struct{ ID, Secret, Method string }

// Authenticate adds the client's credential to a form; the returned function, if
// not nil, adds it to the request (RFC 6749 section 2.3.1).
func (c Client) Authenticate(form url.Values) func(*http.Request) {
	switch c.Method {
	case MethodBasic:
		return func(r *http.Request) { r.SetBasicAuth(url.QueryEscape(c.ID), url.QueryEscape(c.Secret)) }
	case MethodPost:
		form.Set("client_secret", c.Secret)
	}
	form.Set("client_id", c.ID)
	return nil
}

// Token is the result of a token request.
type Token struct {
	Access   string
	Refresh  string        // "" when the response has none
	Scope    string        // "" when the response has none
	Lifetime time.Duration // of Access; 0 when unknown
	Issued   string        // issued_token_type (RFC 8693 section 2.2.1); "" when the response has none
}

const (
	maxToken    = 64 << 10 // bytes
	maxLifetime = 10 * 365 * 24 * time.Hour
)

// Token sends a token request with the parameters of a grant (RFC 6749 sections
// 4.1.3 and 6). Errors are a *Refusal, or describe a malformed response.
func (c Client) Token(ctx context.Context, send Sender, endpoint string, grant url.Values) (*Token, error) {
	style := oauth2.AuthStyleInParams
	if c.Method == MethodBasic {
		style = oauth2.AuthStyleInHeader
	}
	// This Config sends any grant. That of oauth2 sends no resource when it refreshes.
	conf := clientcredentials.Config{ClientID: c.ID, ClientSecret: c.Secret, TokenURL: endpoint, AuthStyle: style, EndpointParams: grant}
	via := &transport{send: send}
	got, err := conf.Token(context.WithValue(ctx, oauth2.HTTPClient, &http.Client{
		Transport: via, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}))
	secrets := []string{c.Secret, grant.Get("code"), grant.Get("code_verifier"), grant.Get("refresh_token"), grant.Get("subject_token")}
	var refused *oauth2.RetrieveError
	switch {
	case via.err != nil:
		return nil, via.err
	case errors.As(err, &refused):
		return nil, &Refusal{Status: refused.Response.StatusCode, Code: Hide(refused.ErrorCode, secrets...), Description: Hide(refused.ErrorDescription, secrets...)}
	case err != nil: // it may quote the response
		return nil, errors.New("it gave no access_token and expires_in that can be read (RFC 6749 section 5.1)")
	case !strings.EqualFold(got.TokenType, "Bearer"): // RFC 6749 section 7.1
		return nil, fmt.Errorf("it gave a token of the type %q, and thv can use Bearer only", Hide(got.TokenType, append(secrets, got.AccessToken)...))
	case !ValidToken(got.AccessToken):
		return nil, errors.New("it gave an access_token that cannot be sent in a header")
	case len(got.RefreshToken) > maxToken:
		return nil, errors.New("it gave a refresh_token that is too long")
	}
	seconds, known := got.Extra("expires_in").(float64)
	if known && seconds <= 0 {
		return nil, errors.New("its expires_in is not a number of seconds in the future")
	}
	scope, _ := got.Extra("scope").(string)
	issued, _ := got.Extra("issued_token_type").(string)
	return &Token{
		Access: got.AccessToken, Refresh: got.RefreshToken, Scope: scope, Issued: issued,
		Lifetime: time.Duration(min(seconds, maxLifetime.Seconds())) * time.Second,
	}, nil
}

// transport is a Sender for x/oauth2.
type transport struct {
	send Sender
	err  error
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.send(r)
	if err != nil {
		t.err = err
		return nil, err
	}
	return &http.Response{
		StatusCode: resp.Status, Header: resp.Header, Request: r, ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(wholeSeconds(resp.Body))),
	}, nil
}

// wholeSeconds makes expires_in of a token response an integer, as RFC 6749 appendix
// A.14 requires and x/oauth2 expects. Servers also send fractions, and numbers as
// text.
func wholeSeconds(body []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members["expires_in"] == nil {
		return body
	}
	seconds, err := strconv.ParseFloat(strings.Trim(string(members["expires_in"]), `"`), 64)
	if err != nil {
		return body
	}
	members["expires_in"] = strconv.AppendInt(nil, int64(min(seconds, maxLifetime.Seconds())), 10)
	rewritten, err := json.Marshal(members)
	if err != nil {
		return body
	}
	return rewritten
}

// ValidToken reports whether an access token can be sent. RFC 6750 section 2.1 permits
// b64token. Issuers also use other visible characters (RFC 6749 appendix A.12), such as ! and
// |; those that quote or separate values in a header are not accepted.
func ValidToken(token string) bool {
	return token != "" && len(token) <= maxToken && !strings.ContainsFunc(token, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("\"'\\,;", r)
	})
}
