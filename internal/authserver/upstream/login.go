package upstream

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/oauth"
)

// Authorize begins a sign-in. location is where the browser goes; state comes back with it.
// The error is [ErrUnavailable], or a fault of the provider.
func (p *Provider) Authorize(ctx context.Context, state string) (location string, a Attempt, err error) {
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	if state == "" {
		return "", Attempt{}, p.fail("authorization request", errors.New("it has no state"))
	}
	m, err := p.metadata(ctx)
	if err != nil {
		return "", Attempt{}, p.fail("metadata", err)
	}
	client, err := p.client(ctx, m)
	if err != nil {
		return "", Attempt{}, p.fail("client", err)
	}
	request := oauth.NewAuthorization(m, p.redirect)
	request.State = state
	a = Attempt{
		Provider: p.spec.Name, State: state, Verifier: request.Verifier, Redirect: request.Redirect,
		ClientID: client.ID, Issuer: request.Issuer, SendsIssuer: request.SendsIssuer,
	}
	if p.spec.OIDC != nil {
		a.Nonce = rand.Text() // OpenID Connect Core 1.0 section 3.1.2.1
	}
	location, err = address(p, request.URL(m, client.ID, "", p.scopes(m)), a.Nonce)
	if err != nil {
		return "", Attempt{}, p.fail("authorization endpoint", err)
	}
	return location, a, nil
}

// scopes are those that are requested.
func (p *Provider) scopes(m *oauth.Metadata) []string {
	if len(p.settings.scopes) == 0 && p.clients != nil {
		return m.Scopes
	}
	return p.settings.scopes
}

// address adds the nonce and the additional parameters to an authorization request. They
// cannot replace those of the protocol, and neither can the query of the endpoint.
func address(p *Provider, request, nonce string) (string, error) {
	base, query, _ := strings.Cut(request, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", errors.New("its query cannot be read")
	}
	for _, v := range values {
		if len(v) > 1 {
			return "", errors.New("its query sets a parameter of the authorization request")
		}
	}
	if nonce != "" {
		values.Set("nonce", nonce)
	}
	for _, name := range slices.Sorted(maps.Keys(p.settings.params)) {
		// RFC 9101 section 5: parameters of a request object replace all others.
		if values.Has(name) || name == "request" || name == "request_uri" {
			return "", fmt.Errorf("the additional parameter %q is one of the authorization request", name)
		}
		values.Set(name, p.settings.params[name])
	}
	return base + "?" + values.Encode(), nil
}

// Finish completes a sign-in with the parameters with which the browser returned. The error
// is [ErrDenied], [ErrUnavailable], [ErrExpired], or a fault of the provider. An Attempt is
// for one call.
func (p *Provider) Finish(ctx context.Context, a Attempt, callback url.Values) (*Login, error) {
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	if a.Provider != p.spec.Name || a.Verifier == "" || a.State == "" {
		return nil, p.fail("sign-in", errors.New("it belongs to another provider"))
	}
	request := &oauth.Authorization{Issuer: a.Issuer, SendsIssuer: a.SendsIssuer, State: a.State, Verifier: a.Verifier, Redirect: a.Redirect}
	code, err := request.Code(callback)
	if err != nil {
		return nil, p.fail("authorization response", refusedSignIn(err))
	}
	m, err := p.metadata(ctx)
	if err != nil {
		return nil, p.fail("metadata", err)
	}
	client, err := p.client(ctx, m)
	if err != nil {
		return nil, p.fail("client", err)
	}
	if client.ID != a.ClientID {
		return nil, p.fail("client", fmt.Errorf("%w: the client was registered again meanwhile", ErrExpired))
	}
	token, members, err := p.token(ctx, m, client, request.Grant(code, ""))
	if err != nil {
		return nil, p.fail("token request", err)
	}
	tokens := p.tokens(token, p.scopes(m))
	var identity Identity
	if p.spec.OIDC != nil {
		identity, tokens.IDToken, err = p.identifyOIDC(ctx, m, a, tokens, members)
	} else {
		identity, err = p.identifyOAuth2(ctx, tokens.AccessToken, members)
	}
	if err != nil {
		return nil, p.fail("identity", err)
	}
	return &Login{Identity: identity, Tokens: tokens}, nil
}

// refusedSignIn classifies a fault of the authorization response.
func refusedSignIn(err error) error {
	var refused *oauth.Refusal
	switch {
	case !errors.As(err, &refused):
		return err
	case temporary(refused):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", ErrDenied, err)
}

// temporary: a later request may succeed (RFC 6749 section 4.1.2.1).
func temporary(r *oauth.Refusal) bool {
	return r.Code == "temporarily_unavailable" || r.Code == "server_error"
}

// tokens are the result of a token request. Without scope in the response, those requested
// were granted (RFC 6749 section 5.1).
func (p *Provider) tokens(t *oauth.Token, requested []string) Tokens {
	tokens := Tokens{AccessToken: t.Access, RefreshToken: t.Refresh, Scopes: splitScopes(t.Scope, requested)}
	if t.Scope == "" {
		tokens.Scopes = slices.Clone(requested)
	}
	if t.Lifetime > 0 {
		tokens.Expiry = p.now().Add(t.Lifetime).UTC().Truncate(time.Second)
	}
	return tokens
}

// Refresh returns new tokens for a refresh token (RFC 6749 section 6). A token that the
// response does not have keeps its former value. The error is [ErrExpired],
// [ErrUnavailable], or a fault of the provider.
func (p *Provider) Refresh(ctx context.Context, t Tokens) (Tokens, error) {
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	if t.RefreshToken == "" {
		return Tokens{}, p.fail("refresh", fmt.Errorf("%w: there is no refresh token", ErrExpired))
	}
	m, err := p.metadata(ctx)
	if err != nil {
		return Tokens{}, p.fail("metadata", err)
	}
	client, err := p.client(ctx, m)
	if err != nil {
		return Tokens{}, p.fail("client", err)
	}
	token, members, err := p.token(ctx, m, client, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {t.RefreshToken}})
	if err != nil {
		return Tokens{}, p.fail("refresh", err)
	}
	fresh := p.tokens(token, t.Scopes)
	fresh.RefreshToken = cmp.Or(fresh.RefreshToken, t.RefreshToken)
	if fresh.IDToken, err = p.renewedIDToken(ctx, t.IDToken, fresh.AccessToken, members); err != nil {
		return Tokens{}, p.fail("refresh", err)
	}
	return fresh, nil
}

// equal compares secrets.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
