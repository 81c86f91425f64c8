//go:build integration

package auth

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolhaven/toolhaven/test/idp"
)

// With a real identity provider, npm's oidc-provider. Outages, providers that hang and
// the keys of a Kubernetes cluster are tested with the whole program, in test/registry
// (identity_outage_test.go, identity_kubernetes_test.go).

const (
	api    = "https://registry.example/registry"
	opaque = "https://registry.example/opaque"
)

// realProvider is a started provider as a Provider.
func realProvider(p *idp.Provider) Provider {
	return Provider{Name: "idp", IssuerURL: p.Issuer, Audience: api}
}

// asking adds introspection with the client that may.
func asking(t *testing.T, p *idp.Provider) Provider {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(idp.IntrospectionSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Provider{
		Name: "idp", IssuerURL: p.Issuer, Audience: opaque, IntrospectionURL: p.IntrospectionURL(),
		ClientID: idp.IntrospectionClient, ClientSecretFile: file,
	}
}

func TestRealProvider_JWTs(t *testing.T) {
	for _, alg := range []string{"RS256", "PS256", "ES256", "EdDSA"} {
		t.Run(alg, func(t *testing.T) {
			t.Parallel()
			p := idp.Start(t, idp.Options{Algorithm: alg})
			v := newValidator(t, realProvider(p))
			id, err := v.Validate(t.Context(), p.Token(t, api, "mcp-registry:write"))
			if err != nil {
				t.Fatal(reasons(err))
			}
			if id.Issuer != p.Issuer || !id.HasScope("mcp-registry:write") || id.HasScope("mcp-registry:read") || id.Expires.IsZero() {
				t.Errorf("%+v", id)
			}
			if _, err := v.Validate(t.Context(), p.Token(t, api+"/other")); err == nil || !strings.Contains(reasons(err), "audience") {
				t.Errorf("for another resource: %s", reasons(err))
			}
			person := p.UserTokens(t, "jo", api, "mcp-registry:read")
			if id, err := v.Validate(t.Context(), person.AccessToken); err != nil || id.Subject != "jo" {
				t.Errorf("%+v %s", id, reasons(err))
			}
		})
	}
}

func TestRealProvider_OpaqueTokens(t *testing.T) {
	p := idp.Start(t, idp.Options{Opaque: []string{opaque}})
	provider := asking(t, p)
	c := &clock{}
	v := newValidatorWith(t, Options{Now: c.now}, provider)
	token := p.Token(t, opaque, "mcp-registry:read")
	id, err := v.Validate(t.Context(), token)
	if err != nil {
		t.Fatal(reasons(err))
	}
	if !id.HasScope("mcp-registry:read") || id.Claims["client_id"] != idp.ServiceClient || id.Expires.IsZero() {
		t.Errorf("%+v", id)
	}
	p.Revoke(t, token)
	if _, err := v.Validate(t.Context(), token); err != nil {
		t.Errorf("not from the cache: %s", reasons(err))
	}
	c.advance(cacheFor)
	if _, err := v.Validate(t.Context(), token); err == nil || !strings.Contains(reasons(err), "not active") {
		t.Errorf("revoked a minute ago: %s", reasons(err))
	}
	// A refresh token is active too, and none of ours.
	person := p.UserTokens(t, "jo", opaque, "offline_access", "mcp-registry:read")
	if _, err := v.Validate(t.Context(), person.AccessToken); err != nil {
		t.Error(reasons(err))
	}
	if _, err := v.Validate(t.Context(), person.RefreshToken); err == nil {
		t.Error("a refresh token was accepted")
	}
	// With wrong client credentials all tokens are rejected, and the log has the reason.
	if err := os.WriteFile(provider.ClientSecretFile, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = v.Validate(t.Context(), p.Token(t, opaque))
	if err == nil || !strings.Contains(reasons(err), "401") || !strings.Contains(reasons(err), p.IntrospectionURL()) {
		t.Errorf("with a wrong secret: %s", reasons(err))
	}
}

// Keys rotate under load; no good token is ever refused.
func TestRealProvider_Rotation(t *testing.T) {
	p := idp.Start(t, idp.Options{Algorithm: "ES256"})
	v := newValidator(t, realProvider(p))
	stop := make(chan struct{})
	var load sync.WaitGroup
	var good, bad atomic.Int64
	before := p.Token(t, api)
	if _, err := v.Validate(t.Context(), before); err != nil {
		t.Fatal(reasons(err))
	}
	for range 2 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := v.Validate(context.Background(), p.Token(t, api)); err != nil {
					bad.Add(1)
					t.Error(reasons(err))
					return
				}
				good.Add(1)
			}
		})
	}
	for range 3 {
		n := good.Load()
		eventually(t, "tokens pass", func() bool { return good.Load() > n+5 || bad.Load() > 0 })
		p.RotateKeys(t, true)
	}
	n := good.Load()
	eventually(t, "tokens pass", func() bool { return good.Load() > n+5 || bad.Load() > 0 })
	close(stop)
	load.Wait()
	if _, err := v.Validate(t.Context(), before); err != nil {
		t.Errorf("a token of the first key, which is still published: %s", reasons(err))
	}
	// A key that is withdrawn takes its tokens with it, as soon as that is known.
	withdrawn := p.Token(t, api)
	p.RotateKeys(t, false)
	eventually(t, "the new key is found", func() bool {
		_, err := v.Validate(t.Context(), p.Token(t, api))
		return err == nil
	})
	if _, err := v.Validate(t.Context(), withdrawn); err == nil {
		t.Error("a token of a withdrawn key is accepted")
	}
}

func TestRealProvider_PrivateAuthority(t *testing.T) {
	authority := idp.NewAuthority(t)
	cert, key := authority.Certificate(t, "127.0.0.1")
	p := idp.Start(t, idp.Options{CertPEM: cert, KeyPEM: key, Opaque: []string{opaque}})
	dir := t.TempDir()
	swapMount(t, dir, map[string]string{"ca.crt": string(idp.NewAuthority(t).PEM)})
	provider, asked := realProvider(p), asking(t, p)
	asked.Name = "asked"
	provider.CACertPath, asked.CACertPath = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.crt")
	v := newValidator(t, provider, asked)
	token, opaqueToken := p.Token(t, api), p.Token(t, opaque)
	if _, err := v.Validate(t.Context(), token); err == nil || !strings.Contains(reasons(err), "certificate") {
		t.Errorf("with another authority: %s", reasons(err))
	}
	swapMount(t, dir, map[string]string{"ca.crt": string(authority.PEM)})
	for _, token := range []string{token, opaqueToken} {
		eventually(t, "the authority is read again", func() bool {
			_, err := v.Validate(t.Context(), token)
			return err == nil
		})
	}
}
