//go:build integration && keycloak

package upstream

import (
	"errors"
	"testing"

	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/test/keycloak"
)

// `make keycloak-test` runs it.
func TestKeycloak(t *testing.T) {
	k := keycloak.Start(t, callbackURL)
	person := func(authorize string) string { return k.SignIn(t, authorize) }
	t.Run("oidc", func(t *testing.T) {
		p := newProvider(t, externalauth.UpstreamProvider{Name: "keycloak", Type: externalauth.UpstreamOIDC, OIDC: &externalauth.OIDC{
			IssuerURL: k.Issuer, ClientID: keycloak.Client, ClientSecretRef: secretRef, Scopes: []string{"openid", "profile", "email"},
		}}, secret(keycloak.ClientSecret))
		login, callback := signIn(t, p, person)
		if id := login.Identity; id.Subject == "" || id.Name != "Jo Doe" || id.Email != "jo@example.com" {
			t.Errorf("%+v", id)
		}
		if callback.Get("iss") != k.Issuer { // RFC 9207
			t.Errorf("%v", callback)
		}
		after, err := p.Refresh(t.Context(), login.Tokens)
		if err != nil || after.AccessToken == login.Tokens.AccessToken {
			t.Errorf("refresh: %v", err)
		}
		if _, err := p.Refresh(t.Context(), Tokens{RefreshToken: "of-another"}); !errors.Is(err, ErrExpired) {
			t.Errorf("a refresh token of another: %v", err)
		}
	})
	// Keycloak refuses registrations with the scope openid, unless a policy of the realm permits
	// it.
	t.Run("oauth2 with registration", func(t *testing.T) {
		p := newProvider(t, externalauth.UpstreamProvider{Name: "keycloak", Type: externalauth.UpstreamOAuth2, OAuth2: &externalauth.OAuth2{
			AuthorizationEndpoint: k.Issuer + "/protocol/openid-connect/auth", TokenEndpoint: k.Issuer + "/protocol/openid-connect/token", Scopes: []string{"email"},
			DCR: &externalauth.DCR{DiscoveryURL: k.Issuer + "/.well-known/openid-configuration", InitialAccessTokenRef: secretRef},
		}}, secret(k.InitialToken(t)))
		login, _ := signIn(t, p, person)
		if login.Identity.Subject == "" {
			t.Errorf("%+v", login.Identity)
		}
		if _, err := p.Refresh(t.Context(), login.Tokens); err != nil {
			t.Errorf("refresh: %v", err)
		}
	})
}
