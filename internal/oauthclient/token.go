package oauthclient

import (
	"context"
	"net/url"
	"strings"

	"github.com/toolhaven/toolhaven/internal/oauth"
)

// Refusal is an error response of an authorization server.
type Refusal = oauth.Refusal

// ValidToken reports whether an access token can be sent (RFC 6750 section 2.1).
func ValidToken(token string) bool { return oauth.ValidToken(token) }

// request sends a token request and returns what is kept of the response.
func (s *Store) request(ctx context.Context, w *web, endpoint string, id identity, form url.Values) (*grant, error) {
	client, err := s.client(id)
	if err != nil {
		return nil, err
	}
	sent := s.now()
	token, err := client.Token(ctx, w.sender(), endpoint, form)
	if err != nil {
		return nil, err
	}
	g := &grant{AccessToken: hidden(token.Access), RefreshToken: hidden(token.Refresh)}
	if scopes, err := checkScopes(strings.Fields(token.Scope)); err == nil {
		g.Scope = strings.Join(scopes, " ")
	}
	if token.Lifetime > 0 {
		g.Expires = sent.Add(token.Lifetime) // the server's clock started later
	}
	return g, nil
}
