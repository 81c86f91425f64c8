package auth

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// introspect sends a token to the provider's introspection endpoint (RFC 7662 section
// 2).
func (p *provider) introspect(ctx context.Context, token string) (*verdict, *refusal) {
	leave, ok := p.enter(ctx)
	if !ok {
		return nil, unavailable("too many tokens are being checked at %s", p.IntrospectionURL)
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.IntrospectionURL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, unavailable("introspection: %v", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	// The request is idempotent: net/http may repeat it when the provider closes an
	// idle connection. An empty list is not sent as a header.
	req.Header["Idempotency-Key"] = []string{}
	if err := p.authenticate(req); err != nil {
		return nil, unavailable("%v", err)
	}
	body, err := p.out.do(req)
	if err != nil {
		return nil, unavailable("%v", err)
	}
	claims, r := decodeIntrospection(body)
	if r != nil {
		r.reason = p.IntrospectionURL + ": " + r.reason
		return nil, r
	}
	return p.accept(claims, 0)
}

// enter waits for one of maxAsking places; leave frees it. ok is false when too many
// callers wait, or when ctx ends first.
func (p *provider) enter(ctx context.Context) (leave func(), ok bool) {
	select {
	case p.waiting <- struct{}{}:
	default:
		return nil, false
	}
	select {
	case p.asking <- struct{}{}:
		return func() { <-p.asking; <-p.waiting }, true
	case <-ctx.Done():
		<-p.waiting
		return nil, false
	}
}

// decodeIntrospection reads a response (RFC 7662 section 2.2): an object whose active
// is the boolean true. A response that is no object makes the provider unavailable.
func decodeIntrospection(body []byte) (map[string]any, *refusal) {
	claims, err := decodeObject(body)
	if err != nil {
		return nil, unavailable("the answer cannot be read: %v", err)
	}
	switch active := claims["active"].(type) {
	case bool:
		if active {
			return claims, nil
		}
		return nil, refuse("the provider reports that the token is not active")
	default:
		return nil, refuse("it does not say whether the token is active")
	}
}

// authenticate adds the credential for the introspection endpoint: that of the client,
// if there is one (RFC 6749 section 2.3.1), else the token of AuthTokenFile.
func (p *provider) authenticate(req *http.Request) error {
	if p.ClientID == "" {
		return p.out.bearer(req)
	}
	secret, err := p.clientSecret()
	if err != nil {
		return err
	}
	req.SetBasicAuth(url.QueryEscape(p.ClientID), url.QueryEscape(secret))
	return nil
}

// clientSecret returns the secret of ClientID; "" for none.
func (p *provider) clientSecret() (string, error) {
	switch {
	case p.ClientSecret != nil:
		return p.ClientSecret()
	case p.ClientSecretFile != "":
		return readSecret(p.ClientSecretFile)
	}
	return "", nil
}
