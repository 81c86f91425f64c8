//go:build integration

package upstream

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/test/dex"
	"github.com/toolhaven/toolhaven/test/idp"
)

// signIn is a whole sign-in at a real provider; browser returns where it redirects to.
func signIn(t *testing.T, p *Provider, browser func(authorize string) string) (*Login, url.Values) {
	t.Helper()
	location, a, err := p.Authorize(t.Context(), "the-state")
	if err != nil {
		t.Fatal(err)
	}
	back, err := url.Parse(browser(location))
	if err != nil {
		t.Fatal(err)
	}
	login, err := p.Finish(t.Context(), a, back.Query())
	if err != nil {
		t.Fatal(err)
	}
	// A code is for one token request. The provider may revoke what it issued for it
	// (RFC 6749 section 4.1.2), so this is last.
	t.Cleanup(func() {
		if _, err := p.Finish(context.Background(), a, back.Query()); !errors.Is(err, ErrDenied) && !errors.Is(err, ErrExpired) {
			t.Errorf("the code again: %v", err)
		}
	})
	return login, back.Query()
}

func secret(value string) func(*Config) {
	return func(c *Config) { c.Secret = func(externalauth.SecretRef) (string, error) { return value, nil } }
}

func TestDex(t *testing.T) {
	t.Parallel()
	d := dex.Start(t, dex.Options{Redirects: []string{callbackURL}})
	spec := externalauth.UpstreamProvider{Name: "dex", Type: externalauth.UpstreamOIDC, OIDC: &externalauth.OIDC{
		IssuerURL: d.Issuer, ClientID: dex.Agent, ClientSecretRef: secretRef, Scopes: []string{"openid", "profile", "email", "offline_access"},
		AdditionalAuthorizationParams: map[string]string{"prompt": ""},
	}}
	d.Stop()
	p := newProvider(t, spec, secret(dex.AgentSecret))
	clock := p.stop()
	if _, _, err := p.Authorize(t.Context(), "s"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("while Dex is down: %v", err)
	}
	d.Restart(t)
	clock.advance(metadataRetry)
	login, _ := signIn(t, p, func(authorize string) string { return d.SignIn(t, authorize) })
	if id := login.Identity; id.Subject == "" || id.Name != "jo" || id.Email != "jo@example.com" || id.Synthesized {
		t.Errorf("%+v", id)
	}
	if login.Tokens.RefreshToken == "" || login.Tokens.IDToken == "" || login.Tokens.Expiry.IsZero() {
		t.Error("a token or the expiry is missing")
	}
	after, err := p.Refresh(t.Context(), login.Tokens)
	if err != nil || after.AccessToken == login.Tokens.AccessToken || after.RefreshToken == "" {
		t.Errorf("refresh: %v", err)
	}
	if _, err := p.Refresh(t.Context(), Tokens{RefreshToken: "of-another"}); !errors.Is(err, ErrExpired) {
		t.Errorf("a refresh token of another: %v", err)
	}
}

func TestOIDCProvider(t *testing.T) {
	t.Parallel()
	authority := idp.NewAuthority(t)
	for _, algorithm := range []string{"PS256", "EdDSA"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			certPEM, keyPEM := authority.Certificate(t, "127.0.0.1")
			ca := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(ca, authority.PEM, 0o600); err != nil {
				t.Fatal(err)
			}
			o := idp.Start(t, idp.Options{Algorithm: algorithm, WebRedirects: []string{callbackURL}, CertPEM: certPEM, KeyPEM: keyPEM})
			p := newProvider(t, externalauth.UpstreamProvider{Name: "idp", Type: externalauth.UpstreamOIDC, OIDC: &externalauth.OIDC{
				IssuerURL: o.Issuer, ClientID: idp.WebClient, ClientSecretRef: secretRef, Scopes: []string{"openid", "email", "offline_access"},
			}}, secret(idp.WebSecret), func(c *Config) { c.CAFiles = []string{ca} })
			login, callback := signIn(t, p, func(authorize string) string { return o.SignIn(t, authorize, "jo@example.com") })
			if login.Identity.Subject != "jo@example.com" || login.Tokens.RefreshToken == "" || login.Tokens.IDToken == "" {
				t.Errorf("%+v", login.Identity)
			}
			if callback.Get("iss") != o.Issuer { // RFC 9207
				t.Errorf("%v", callback)
			}
			o.RotateKeys(t, false)
			login, _ = signIn(t, p, func(authorize string) string { return o.SignIn(t, authorize, "jo@example.com") })
			// Refresh tokens rotate: the former one is no longer valid.
			if _, err := p.Refresh(t.Context(), login.Tokens); err != nil {
				t.Errorf("refresh: %v", err)
			}
			if _, err := p.Refresh(t.Context(), login.Tokens); !errors.Is(err, ErrExpired) {
				t.Errorf("the former refresh token: %v", err)
			}
		})
	}
}

// As plain OAuth 2.0, with a client that registers itself (RFC 7591).
func TestOIDCProvider_Registration(t *testing.T) {
	t.Parallel()
	o := idp.Start(t, idp.Options{})
	p := newProvider(t, externalauth.UpstreamProvider{Name: "idp", Type: externalauth.UpstreamOAuth2, OAuth2: &externalauth.OAuth2{
		AuthorizationEndpoint: o.Issuer + "/auth", TokenEndpoint: o.Issuer + "/token", Scopes: []string{"openid", "offline_access"},
		DCR:      &externalauth.DCR{DiscoveryURL: o.Issuer + "/.well-known/openid-configuration"},
		UserInfo: &externalauth.UserInfo{EndpointURL: o.Issuer + "/me"},
	}})
	clock := p.stop()
	person := func(authorize string) string { return o.SignIn(t, authorize, "jo") }
	login, _ := signIn(t, p, person)
	if login.Identity != (Identity{Subject: "jo"}) || !slices.Contains(login.Tokens.Scopes, "openid") {
		t.Errorf("%+v, %v", login.Identity, login.Tokens.Scopes)
	}
	if _, err := p.Refresh(t.Context(), login.Tokens); err != nil {
		t.Errorf("refresh: %v", err)
	}
	scopes, known, err := p.SupportedScopes(t.Context())
	if !known || err != nil || !slices.Contains(scopes, "offline_access") {
		t.Errorf("%v, %t, %v", scopes, known, err)
	}
	// A restart forgets the registered client.
	o.Stop()
	if _, err := p.Refresh(t.Context(), login.Tokens); !errors.Is(err, ErrUnavailable) {
		t.Errorf("while it is down: %v", err)
	}
	o.Restart(t)
	clock.advance(minAge)
	if _, err := p.Refresh(t.Context(), login.Tokens); !errors.Is(err, ErrExpired) || !strings.Contains(err.Error(), "registration") {
		t.Errorf("after a restart: %v", err)
	}
	signIn(t, p, person)
}
