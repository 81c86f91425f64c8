//go:build integration

package registry

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/test/dex"
)

// Dex is a provider of another make: see its package for how it differs.

func dexConfig(p *dex.Provider, more string) string {
	return fmt.Sprintf("auth:\n  oauth:\n    resourceUrl: %s\n    providers:\n      - name: dex\n        issuerUrl: %s\n        audience: %s\n%s", resource, p.Issuer, resource, more)
}

func TestDex_Tokens(t *testing.T) {
	t.Parallel()
	p := dex.Start(t, dex.Options{Audience: resource})
	tokens, own := p.Login(t, "offline_access"), p.LoginForAgent(t)
	parts := strings.Split(tokens.AccessToken, ".")
	broken := parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2]))

	t.Run("by its keys", func(t *testing.T) {
		c := calls(t, serve(t, dexConfig(p, "")))
		accepted(t, c.with(t, tokens.AccessToken))
		// Dex's access tokens have no scope: reading only.
		if a := c.request(t, http.MethodPost, publish, strings.NewReader("{}"), bearer(tokens.AccessToken)); a.status != http.StatusForbidden {
			t.Errorf("published without a scope: %s", a)
		}
		for _, row := range []badToken{
			{"RFC 7519 4.1.3", "a token for the client itself", own.AccessToken, invalid, "dex: the audience does not match"},
			{"RFC 7515 5.2", "a broken signature", broken, invalid, "dex: its signature is not valid"},
			{"RFC 6749 1.5", "a refresh token", tokens.RefreshToken, invalid, "dex: skipped: the token is opaque"},
		} {
			since := c.mark()
			refused(t, c.with(t, row.token), row.code)
			c.said(t, since, row.why)
		}
	})
	t.Run("by introspection", func(t *testing.T) {
		c := calls(t, serve(t, dexConfig(p, "        introspectionUrl: "+p.IntrospectionURL()+"\n")))
		accepted(t, c.with(t, tokens.AccessToken))
		for _, row := range []badToken{
			{"RFC 7519 4.1.3", "a token for the client itself", own.AccessToken, invalid, "dex: the audience does not match"},
			{"RFC 7662 2.2", "a broken signature", broken, invalid, p.IntrospectionURL()},
			{"RFC 7662 4", "a refresh token, which is active for the client", tokens.RefreshToken, invalid, "dex: the audience does not match"},
			{"RFC 7662 2.2", "a token nobody issued", "b3BhcXVlLW9mLW5vYm9keQ", invalid, p.IntrospectionURL()},
		} {
			since := c.mark()
			refused(t, c.with(t, row.token), row.code)
			c.said(t, since, row.why)
		}
	})
}

// Where the audience is the client, Dex vouches for refresh tokens too: active, of
// our issuer, for our audience. They are for Dex alone all the same.
func TestDex_RefreshTokenRefused(t *testing.T) {
	t.Parallel()
	p := dex.Start(t, dex.Options{Audience: resource})
	config := strings.Replace(dexConfig(p, "        introspectionUrl: "+p.IntrospectionURL()+"\n"), "audience: "+resource, "audience: "+dex.Agent, 1)
	c := calls(t, serve(t, config))
	tokens := p.Login(t, "offline_access")
	accepted(t, c.with(t, p.LoginForAgent(t).AccessToken))
	since := c.mark()
	refused(t, c.with(t, tokens.RefreshToken), invalid)
	c.said(t, since, "it is a token for another use")
}

// Dex rotates its own keys while everything runs: no token is refused for it.
func TestDex_KeyRotation(t *testing.T) {
	t.Parallel()
	p := dex.Start(t, dex.Options{Audience: resource, KeyLifetime: 5 * time.Second, TokenLifetime: 2 * time.Minute})
	c := calls(t, serve(t, dexConfig(p, "")))
	first := p.Login(t).AccessToken
	accepted(t, c.with(t, first))
	before := p.KeyIDs(t)
	eventually(t, "Dex rotates its key", func() error {
		accepted(t, c.with(t, p.Login(t).AccessToken))
		if slices.Equal(before, p.KeyIDs(t)) {
			return errors.New("the same keys")
		}
		return nil
	})
	accepted(t, c.with(t, p.Login(t).AccessToken)) // of the new key
	accepted(t, c.with(t, first))                  // of the one before, still published

	// And across outages: known keys serve, a key made meanwhile is found.
	p.Stop()
	accepted(t, c.with(t, first))
	p.Restart(t)
	eventually(t, "a token of after the outage is accepted", func() error {
		if a := c.with(t, p.Login(t).AccessToken); a.status != http.StatusOK {
			return errors.New(a.String())
		}
		return nil
	})
	accepted(t, c.with(t, first))
}
