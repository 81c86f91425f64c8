//go:build integration

package idp

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

func keyIDs(t *testing.T, p *Provider) []string {
	t.Helper()
	resp, err := p.client().Get(p.JWKSURL())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var set jose.JSONWebKeySet
	if err := json.NewDecoder(resp.Body).Decode(&set); err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, key := range set.Keys {
		ids = append(ids, key.KeyID)
	}
	return ids
}

func TestProvider_Tokens(t *testing.T) {
	for _, algorithm := range []string{"RS256", "PS256", "ES256", "EdDSA"} {
		t.Run(algorithm, func(t *testing.T) {
			p := Start(t, Options{Algorithm: algorithm, Opaque: []string{"https://opaque.example"}})
			token := p.Token(t, "https://api.example/x", "mcp-registry:read")
			jws, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(algorithm)})
			if err != nil {
				t.Fatal(err)
			}
			key := p.SigningKey()
			claims, err := jws.Verify(key.Public())
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{`"aud":"https://api.example/x"`, `"scope":"mcp-registry:read"`, `"iss":"` + p.Issuer + `"`} {
				if !strings.Contains(string(claims), want) {
					t.Errorf("%s has not %s", claims, want)
				}
			}
			opaque := p.Token(t, "https://opaque.example", "mcp-registry:write")
			answer := p.post(t, "/token/introspection", IntrospectionClient, IntrospectionSecret, url.Values{"token": {opaque}})
			if !strings.Contains(string(answer), `"active":true`) || strings.Contains(opaque, ".") {
				t.Errorf("%s %s", opaque, answer)
			}
			p.Revoke(t, opaque)
			answer = p.post(t, "/token/introspection", IntrospectionClient, IntrospectionSecret, url.Values{"token": {opaque}})
			if !strings.Contains(string(answer), `"active":false`) {
				t.Errorf("after revocation: %s", answer)
			}
		})
	}
}

func TestKeysRotateWithoutOutageAndSurviveARestart(t *testing.T) {
	p := Start(t, Options{Algorithm: "ES256"})
	before := keyIDs(t, p)
	p.RotateKeys(t, true)
	if ids := keyIDs(t, p); len(ids) != 2 {
		t.Errorf("%v, then %v", before, ids)
	}
	p.RotateKeys(t, false)
	last := keyIDs(t, p)
	if len(last) != 1 || last[0] == before[0] || last[0] != p.SigningKey().KeyID {
		t.Errorf("%v, then %v", before, last)
	}
	issuer := p.Issuer
	p.Stop()
	if _, err := p.client().Get(p.JWKSURL()); err == nil {
		t.Error("it answers after Stop")
	}
	p.Restart(t)
	if again := keyIDs(t, p); p.Issuer != issuer || again[0] != last[0] {
		t.Errorf("%s %v after the restart of %s %v", p.Issuer, again, issuer, last)
	}
	p.Suspend(t)
	client := p.client()
	client.Timeout = 300 * time.Millisecond
	if _, err := client.Get(p.JWKSURL()); err == nil || !strings.Contains(err.Error(), "imeout") {
		t.Errorf("suspended: %v", err)
	}
	p.Resume(t)
	keyIDs(t, p)
}

func TestItListensWithACertificateOfAnAuthority(t *testing.T) {
	cert, key := NewAuthority(t).Certificate(t, "127.0.0.1")
	p := Start(t, Options{CertPEM: cert, KeyPEM: key})
	if !strings.HasPrefix(p.Issuer, "https://") {
		t.Error(p.Issuer)
	}
	p.Token(t, "https://api.example")
}

func TestClientsRegisterAndLoginHasAPage(t *testing.T) {
	p := Start(t, Options{})
	resp, err := p.client().Post(p.Issuer+"/reg", "application/json", strings.NewReader(
		`{"redirect_uris":["http://127.0.0.1:1/cb"],"application_type":"native","token_endpoint_auth_method":"none"}`))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 201 {
		t.Errorf("register: %s %s", resp.Status, body)
	}
	client := p.client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for name, redirect := range map[string][2]string{
		"native, any port": {PublicClient, "http://127.0.0.1:45678/callback"},
		"web":              {WebClient, "http://127.0.0.1:8666/callback"},
	} {
		resp, err = client.Get(p.Issuer + "/auth?" + url.Values{
			"client_id": {redirect[0]}, "redirect_uri": {redirect[1]}, "response_type": {"code"}, "scope": {"openid"},
			"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
			"resource": {"https://api.example"},
		}.Encode())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if to := resp.Header.Get("Location"); !strings.Contains(to, "/interaction/") {
			t.Errorf("%s: %s %s", name, resp.Status, to)
		}
	}
}

func TestAPersonLogsInAndTheRefreshTokenRotates(t *testing.T) {
	p := Start(t, Options{})
	tokens := p.UserTokens(t, "jo", "https://api.example", "offline_access", "mcp-registry:read")
	if strings.Count(tokens.AccessToken, ".") != 2 || tokens.RefreshToken == "" || !strings.Contains(tokens.Scope, "mcp-registry:read") {
		t.Fatalf("%+v", tokens)
	}
	refresh := url.Values{"grant_type": {"refresh_token"}, "client_id": {PublicClient}, "refresh_token": {tokens.RefreshToken}}
	var again Tokens
	if err := json.Unmarshal(p.post(t, "/token", "", "", refresh), &again); err != nil {
		t.Fatal(err)
	}
	if again.RefreshToken == "" || again.RefreshToken == tokens.RefreshToken {
		t.Error("the refresh token was not rotated")
	}
}
