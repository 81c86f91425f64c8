package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"

	"github.com/toolhaven/toolhaven/internal/oauth"
)

// methodMemory is the method of client authentication that a provider without metadata
// accepted; nil is none yet.
type methodMemory struct{ atomic.Pointer[string] }

// client returns the client with its credential.
func (p *Provider) client(ctx context.Context, m *oauth.Metadata) (oauth.Client, error) {
	if p.clients != nil {
		return p.clients.client(ctx, m)
	}
	c := oauth.Client{ID: p.settings.clientID, Method: oauth.MethodNone}
	if p.settings.secret == nil {
		return c, nil
	}
	var err error
	if c.Secret, err = p.secret(*p.settings.secret); err != nil {
		return c, fmt.Errorf("clientSecretRef: %w", err)
	}
	if c.Secret == "" {
		return c, errors.New("clientSecretRef: the secret is empty")
	}
	switch accepted := p.method.Load(); {
	case p.settings.method != "":
		c.Method = p.settings.method
	case accepted != nil:
		c.Method = *accepted
	default:
		c.Method, err = m.Method()
	}
	return c, err
}

// token sends a token request, and returns also the members of the response.
func (p *Provider) token(ctx context.Context, m *oauth.Metadata, client oauth.Client, grant url.Values) (*oauth.Token, map[string]any, error) {
	refreshes := grant.Get("grant_type") == "refresh_token"
	request := func(client oauth.Client) (*oauth.Token, map[string]any, error) {
		a := &answer{}
		token, err := client.Token(ctx, a.sender(p.send, p.mapping, refreshes), m.Token, grant)
		return token, a.members, err
	}
	token, members, err := request(client)
	var refused *oauth.Refusal
	if !errors.As(err, &refused) {
		return token, members, err
	}
	unknown := refused.Code == "invalid_client" || refused.Status == http.StatusUnauthorized
	if unknown && client.Method == oauth.MethodBasic && p.published == nil && p.clients == nil && p.method.Load() == nil {
		// Nothing names the method, and several providers read the other one only.
		client.Method = oauth.MethodPost
		if token, members, again := request(client); again == nil {
			method := oauth.MethodPost
			p.method.Store(&method)
			return token, members, nil
		}
	}
	switch {
	case temporary(refused):
		return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case refreshes && (refused.AboutSubject() || slices.Contains(expiredCodes, refused.Code)):
		return nil, nil, fmt.Errorf("%w: %w", ErrExpired, err)
	case !refreshes && (refused.AboutSubject() || slices.Contains(deniedCodes, refused.Code)):
		return nil, nil, fmt.Errorf("%w: %w", ErrDenied, err)
	case unknown && p.clients != nil:
		p.clients.forget(ctx, m, client.ID)
		return nil, nil, fmt.Errorf("%w, with a new registration: %w", ErrExpired, err)
	}
	return nil, nil, err
}

// expiredCodes refuse a refresh token, in addition to those of RFC 6749 section 5.2 and to
// invalid_request, with which Dex does: OpenID Connect Core 1.0 section 3.1.2.6 as Entra
// sends them; GitHub; Slack.
var expiredCodes = []string{
	"interaction_required", "login_required", "consent_required",
	"bad_refresh_token",
	"invalid_refresh_token", "token_revoked", "token_expired",
}

// deniedCodes refuse a code in the same way: GitHub; Slack.
var deniedCodes = []string{
	"bad_verification_code",
	"invalid_code", "code_already_used", "code_expired",
}
