//go:build integration

package auth

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/toolhaven/toolhaven/test/idp"
	"github.com/toolhaven/toolhaven/test/local"
)

// Against a real identity provider, npm's oidc-provider.

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

func TestRealProvider_DownAtStart(t *testing.T) {
	p := idp.Start(t, idp.Options{})
	token := p.Token(t, api)
	p.Stop()
	v := newValidator(t, realProvider(p))
	_, err := v.Validate(t.Context(), token)
	if err == nil || !strings.Contains(reasons(err), p.Issuer) {
		t.Fatalf("while it is down: %s", reasons(err))
	}
	p.Restart(t)
	eventually(t, "the provider is found", func() bool {
		_, err := v.Validate(t.Context(), token)
		return err == nil
	})
	// Gone again: the keys stay.
	p.Stop()
	if _, err := v.Validate(t.Context(), token); err != nil {
		t.Error(reasons(err))
	}
}

// A provider whose process is stopped accepts connections and sends nothing.
func TestRealProvider_Hangs(t *testing.T) {
	hung := idp.Start(t, idp.Options{Opaque: []string{opaque}})
	healthy := idp.Start(t, idp.Options{Opaque: []string{opaque}})
	token := hung.Token(t, opaque)
	hung.Suspend(t)
	first, second := asking(t, hung), asking(t, healthy)
	first.Name, second.Name = "hung", "healthy"
	jwts := realProvider(healthy)
	jwts.Name = "jwts"
	v := newValidator(t, first, second, jwts)
	for i := range 20 {
		for _, resource := range []string{opaque, api} {
			good := healthy.Token(t, resource)
			start := time.Now()
			if _, err := v.Validate(t.Context(), good); err != nil {
				t.Fatal(reasons(err))
			}
			// The shortest of the bounds on a provider that does not answer.
			if took := time.Since(start); took >= keysWait {
				t.Errorf("%d: %s: took %s beside a provider that hangs", i, resource, took)
			}
		}
	}
	hung.Resume(t)
	eventually(t, "the provider's own tokens pass", func() bool {
		_, err := v.Validate(t.Context(), token)
		return err == nil
	})
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

// The service-account provider of specification section 5.11: its keys are at a
// private address, behind the cluster's authority, for requests with the mounted
// token, which is replaced from time to time.
func TestKubernetesProvider(t *testing.T) {
	address := local.PrivateAddress(t)
	authority := idp.NewAuthority(t)
	cert, key := authority.Certificate(t, address)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	s, next := newSigner(t, jose.RS256, "k1"), newSigner(t, jose.RS256, "k2")
	var mu sync.Mutex
	valid, published := "mounted-1", []*signer{s}
	cluster := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path != "/openid/v1/jwks" {
			http.Error(w, "not found", 404)
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+valid {
			http.Error(w, `{"kind":"Status","code":401}`, 401)
			return
		}
		set := jose.JSONWebKeySet{}
		for _, s := range published {
			set.Keys = append(set.Keys, s.public())
		}
		w.Header().Set("Content-Type", "application/jwk-set+json")
		json.NewEncoder(w).Encode(set)
	}))
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	cluster.Listener.Close()
	cluster.Listener = listener
	cluster.Config.ErrorLog = discardLog()
	cluster.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	cluster.StartTLS()
	defer cluster.Close()

	dir := t.TempDir()
	swapMount(t, dir, map[string]string{"ca.crt": string(authority.PEM), "token": "mounted-1"})
	const issuer = "https://kubernetes.default.svc.cluster.local"
	provider := Provider{
		Name: "kubernetes", IssuerURL: issuer, Audience: "mcp-registry", JWKSURL: cluster.URL + "/openid/v1/jwks",
		CACertPath: filepath.Join(dir, "ca.crt"), AuthTokenFile: filepath.Join(dir, "token"), AllowPrivateIP: true,
	}
	account := func(s *signer, audience ...string) string {
		return s.sign(t, "", map[string]any{
			"iss": issuer, "aud": audience, "sub": "system:serviceaccount:default:agent", "iat": time.Now().Unix(),
			"nbf": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "jti": fmt.Sprint(time.Now().UnixNano()),
			"kubernetes.io": map[string]any{"namespace": "default", "serviceaccount": map[string]any{"name": "agent"}},
		})
	}
	v := newValidator(t, provider)
	id, err := v.Validate(t.Context(), account(s, "mcp-registry"))
	if err != nil {
		t.Fatal(reasons(err))
	}
	if id.Subject != "system:serviceaccount:default:agent" {
		t.Errorf("%+v", id)
	}
	if _, err := v.Validate(t.Context(), account(s, "https://kubernetes.default.svc")); err == nil || !strings.Contains(reasons(err), "audience") {
		t.Errorf("a token for the cluster itself: %s", reasons(err))
	}
	// The kubelet replaces the token, the cluster its key.
	mu.Lock()
	valid, published = "mounted-2", []*signer{s, next}
	mu.Unlock()
	swapMount(t, dir, map[string]string{"ca.crt": string(authority.PEM), "token": "mounted-2"})
	if _, err := v.Validate(t.Context(), account(next, "mcp-registry")); err != nil {
		t.Errorf("after the token was replaced: %s", reasons(err))
	}
	// Without allowPrivateIP the address is refused, and without the token the
	// cluster refuses.
	public, anonymous := provider, provider
	public.AllowPrivateIP, anonymous.AuthTokenFile = false, ""
	for word, p := range map[string]Provider{"not a public one": public, "401": anonymous} {
		if _, err := newValidator(t, p).Validate(t.Context(), account(s, "mcp-registry")); err == nil || !strings.Contains(reasons(err), word) {
			t.Errorf("want %s: %s", word, reasons(err))
		}
	}
}
