//go:build integration

package registry

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/test/idp"
)

const resource = "https://registry.example.com/mcp"

// oauthConfig is a configuration with a provider of JWTs and one of opaque
// tokens.
func oauthConfig(t *testing.T, extra string, providers ...*idp.Provider) string {
	t.Helper()
	text := "auth:\n  oauth:\n    resourceUrl: " + resource + "\n" + extra + "    providers:\n"
	for i, p := range providers {
		text += fmt.Sprintf("      - name: idp%d\n        issuerUrl: %s\n        audience: %s\n", i, p.Issuer, resource)
	}
	return text
}

func withIntrospection(t *testing.T, config string, p *idp.Provider) string {
	t.Helper()
	return config + fmt.Sprintf("        introspectionUrl: %s\n        clientId: %s\n        clientSecretFile: %s\n", p.IntrospectionURL(), idp.IntrospectionClient, secretFile(t, idp.IntrospectionSecret))
}

func TestAuth_ProtectedRegistry(t *testing.T) {
	t.Parallel()
	p := idp.Start(t, idp.Options{})
	opaque := idp.Start(t, idp.Options{Opaque: []string{resource}})
	s := serve(t, withIntrospection(t, oauthConfig(t, "    publicPaths: [/registry/open, /nothing]\n", p, opaque), opaque)+`
sources:
  - {name: default, managed: {}}
  - {name: open, managed: {}}
registries:
  - {name: default, sources: [default]}
  - {name: open, sources: [open]}
`)
	reader := p.Token(t, resource, "mcp-registry:read")
	writer := p.Token(t, resource, "mcp-registry:read", "mcp-registry:write")
	const metadata = `resource_metadata="https://registry.example.com/.well-known/oauth-protected-resource/mcp"`

	t.Run("who sends nothing is told where to go, and of no error", func(t *testing.T) {
		for _, path := range []string{servers, "/", "/nowhere", at("a.b/x", "/versions"), "/registry/openly/v0.1/servers"} {
			a := mustDo(t, s.do("GET", path, nil), http.StatusUnauthorized)
			challenge := a.header.Get("WWW-Authenticate")
			if !strings.HasPrefix(challenge, `Bearer realm="mcp-registry", `+metadata) || strings.Contains(challenge, "error") {
				t.Errorf("%s: %s", path, challenge)
			}
		}
		mustDo(t, s.do("POST", publish, server("a.b/x", "1.0.0")), http.StatusUnauthorized)
	})
	t.Run("the metadata is where the challenge points and at the root", func(t *testing.T) {
		for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
			var doc map[string]any
			mustDo(t, s.do("GET", path, nil), http.StatusOK).into(t, &doc)
			want := map[string]any{
				"resource": resource, "authorization_servers": []any{p.Issuer, opaque.Issuer}, "bearer_methods_supported": []any{"header"},
				"scopes_supported": []any{"mcp-registry:read", "mcp-registry:write"}, "resource_documentation": doc["resource_documentation"],
			}
			if diff := cmp.Diff(want, doc); diff != "" || doc["resource_documentation"] == nil {
				t.Error(diff)
			}
		}
		mustDo(t, s.do("GET", "/.well-known/other", nil), http.StatusNotFound)
	})
	t.Run("a JWT reads, and writes with the scope", func(t *testing.T) {
		s := s.as(t, reader)
		mustDo(t, s.do("GET", servers, nil), http.StatusOK)
		refused := mustDo(t, s.do("POST", publish, server("a.b/x", "1.0.0")), http.StatusForbidden)
		if c := refused.header.Get("WWW-Authenticate"); !strings.Contains(c, `error="insufficient_scope"`) || !strings.Contains(c, `scope="mcp-registry:write"`) {
			t.Error(c)
		}
		mustDo(t, s.as(t, writer).do("POST", publish, server("a.b/x", "1.0.0")), http.StatusOK)
		mustDo(t, s.do("GET", "/nowhere", nil), http.StatusNotFound)
	})
	t.Run("an opaque token is introspected", func(t *testing.T) {
		token := opaque.Token(t, resource, "mcp-registry:read")
		if strings.Count(token, ".") == 2 {
			t.Fatal("the provider gave a JWT")
		}
		mustDo(t, s.as(t, token).do("GET", servers, nil), http.StatusOK)
		mustDo(t, s.as(t, token+"x").do("GET", servers, nil), http.StatusUnauthorized)
	})
	t.Run("public paths are open for reading alone", func(t *testing.T) {
		mustDo(t, s.do("GET", "/registry/open/v0.1/servers", nil), http.StatusOK)
		mustDo(t, s.do("POST", "/registry/open/v0.1/publish", server("a.b/x", "1.0.0")), http.StatusUnauthorized)
		mustDo(t, s.as(t, reader).do("POST", "/registry/open/v0.1/publish", server("a.b/x", "1.0.0")), http.StatusForbidden)
		mustDo(t, s.do("GET", "/openapi.json", nil), http.StatusOK)
	})
	t.Run("no trick with paths opens another", func(t *testing.T) {
		for _, path := range []string{
			"/registry/open/../default/v0.1/servers", "/registry/open/%2e%2e/default/v0.1/servers", "/registry/open%2f..%2fdefault/v0.1/servers",
			"//registry/open/../default/v0.1/servers", "/.well-known/../registry/default/v0.1/servers", "/.well-known/%2e%2e/registry/default/v0.1/servers",
			"/openapi.json/../registry/default/v0.1/servers", "/openapi.json%2f..%2fregistry/default/v0.1/servers", "/registry/open\\..\\default/v0.1/servers",
			"/registry/open;/default/v0.1/servers", "/registry/OPEN/v0.1/servers", "/registry/open%00/v0.1/servers", "/registry/open%20/v0.1/servers",
			"/Registry/open/v0.1/servers", "/nothing/../registry/default/v0.1/servers", "/nothing%2f%2e%2e%2fregistry/default/v0.1/servers", "/registry/default/v0.1/servers/", "/registry/default/v0.1/servers#/openapi.json",
		} {
			if a := s.raw(t, path); a.status != http.StatusBadRequest && a.status != http.StatusUnauthorized {
				t.Errorf("%s: %s", path, a)
			}
		}
	})
	t.Run("a credential that is none is refused, and said to be", func(t *testing.T) {
		other := p.Token(t, "https://other.example", "mcp-registry:read")
		parts := strings.Split(reader, ".")
		tests := map[string][]string{
			"another audience":   {"Bearer " + other},
			"a broken signature": {"Bearer " + parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2]))},
			"no signature":       {"Bearer " + parts[0] + "." + parts[1] + "."},
			"two blanks":         {"Bearer  " + reader},
			"a blank at the end": {"Bearer " + reader + " x"},
			"quotes":             {`Bearer "` + reader + `"`},
			"no token":           {"Bearer"},
			"two headers":        {"Bearer " + reader, "Bearer " + reader},
			"junk":               {"Bearer ....."},
			"much junk":          {"Bearer " + strings.Repeat("a", 20<<10)},
		}
		for name, values := range tests {
			t.Run(name, func(t *testing.T) {
				req, err := http.NewRequest("GET", s.base+servers, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header["Authorization"] = values
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				var body map[string]string
				if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
					t.Fatal(err)
				}
				c := resp.Header.Get("WWW-Authenticate")
				if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(c, metadata) || !strings.Contains(c, "error=") || body["error"] == "" || body["error_description"] == "" {
					t.Errorf("%d %s %v", resp.StatusCode, c, body)
				}
			})
		}
		mustDo(t, s.do("GET", servers, nil, header{"Authorization": "bEaReR " + reader}), http.StatusOK)
		// Another scheme is no bearer credential, so there is no error to speak of
		// (RFC 6750 section 3.1).
		if a := mustDo(t, s.do("GET", servers, nil, header{"Authorization": "Basic " + reader}), http.StatusUnauthorized); strings.Contains(a.header.Get("WWW-Authenticate"), "error=") {
			t.Error(a.header)
		}
		// A token in the query is no credential (RFC 6750 section 2.3 is not offered).
		mustDo(t, s.do("GET", servers+"?access_token="+reader, nil), http.StatusUnauthorized)
	})
	t.Run("keys are rotated without anybody noticing", func(t *testing.T) {
		p.RotateKeys(t, true)
		mustDo(t, s.as(t, p.Token(t, resource, "mcp-registry:read")).do("GET", servers, nil), http.StatusOK)
		mustDo(t, s.as(t, reader).do("GET", servers, nil), http.StatusOK)
	})
	t.Run("known keys outlive the provider, and a hanging one delays no other", func(t *testing.T) {
		p.Suspend(t)
		defer p.Resume(t)
		mustDo(t, s.as(t, writer).do("GET", servers, nil), http.StatusOK)
		var took time.Duration
		for range 3 { // a busy machine may make one late
			token := opaque.Token(t, resource, "mcp-registry:read")
			began := time.Now()
			mustDo(t, s.as(t, token).do("GET", servers, nil), http.StatusOK)
			if took = time.Since(began); took <= unnoticed {
				return
			}
		}
		t.Errorf("the other provider's token took %s", took)
	})
	t.Run("metrics count validations", func(t *testing.T) {
		resp, err := http.Get(s.internal + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var text strings.Builder
		buf := make([]byte, 64<<10)
		for {
			n, err := resp.Body.Read(buf)
			text.Write(buf[:n])
			if err != nil {
				break
			}
		}
		for _, word := range []string{`thv_registry_token_validations_total{outcome="accepted",provider="idp0"}`, `outcome="accepted",provider="idp1"`, `outcome="rejected",provider="idp0"`, `thv_registry_key_fetches_total{outcome="fetched",provider="idp0"}`} {
			if !strings.Contains(text.String(), word) {
				t.Errorf("/metrics has no %s", word)
			}
		}
	})
	t.Run("no token and no secret is in the log", func(t *testing.T) {
		for _, secret := range []string{reader, writer, strings.Split(reader, ".")[2], idp.IntrospectionSecret} {
			if strings.Contains(s.log.String(), secret) {
				t.Error("the log holds a secret")
			}
		}
		s.said(t, 0, "audience") // why a token was refused
	})
}

func TestAuth_ProviderDownAtStart(t *testing.T) {
	t.Parallel()
	p := idp.Start(t, idp.Options{})
	token := p.Token(t, resource, "mcp-registry:read")
	p.Stop()
	s := serve(t, oauthConfig(t, "", p))
	a := mustDo(t, s.as(t, token).do("GET", servers, nil), http.StatusUnauthorized)
	if strings.Contains(a.String(), token) {
		t.Error("the answer repeats the token")
	}
	s.said(t, 0, p.Issuer+"/.well-known/openid-configuration")
	p.Restart(t)
	eventually(t, "tokens are accepted again", func() error {
		if a := s.as(t, token).do("GET", servers, nil); a.status != http.StatusOK {
			return fmt.Errorf("%s", a)
		}
		return nil
	})
}

func TestAuth_Rules(t *testing.T) {
	t.Parallel()
	p := idp.Start(t, idp.Options{})
	s := serve(t, oauthConfig(t, "", p)+`
authz:
  rules:
    - scopes: [mcp-registry:read]
      registries: [default]
    - actions: [read, write]
      registries: [team]
      claims: {client_id: [`+idp.ServiceClient+`, other]}
sources:
  - {name: default, managed: {}}
  - {name: team, managed: {}}
registries:
  - {name: default, sources: [default]}
  - {name: team, sources: [team]}
`)
	s = s.as(t, p.Token(t, resource, "mcp-registry:read"))
	mustDo(t, s.do("GET", servers, nil), http.StatusOK)
	mustDo(t, s.do("POST", publish, server("a.b/x", "1.0.0")), http.StatusForbidden)
	mustDo(t, s.do("GET", "/registry/team/v0.1/servers", nil), http.StatusOK)
	mustDo(t, s.do("POST", "/registry/team/v0.1/publish", server("a.b/x", "1.0.0")), http.StatusOK)
	bare := s.as(t, p.Token(t, resource))
	mustDo(t, bare.do("GET", servers, nil), http.StatusForbidden)
	mustDo(t, bare.do("GET", "/registry/team/v0.1/servers", nil), http.StatusOK)
}
