package keycloak

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
)

// What exchange.json has beside the person of the package.
const (
	// Login is a public client, with the redirect URI http://127.0.0.1:8672/callback. Its
	// access tokens are for https://outer.example/mcp, and Exchanger may exchange them for
	// those of the audience inner (RFC 8693).
	Login = "login"
	// Exchanger is a client that exchanges tokens.
	Exchanger, ExchangerSecret = "exchanger", "exchanger-secret-of-the-tests"
)

//go:embed exchange.json
var exchangeRealm []byte

// Exchange makes a realm with the clients Login and Exchanger, and returns the provider with
// the issuer of that realm.
func (p *Provider) Exchange(t testing.TB) *Provider {
	t.Helper()
	var realm object
	if err := json.Unmarshal(exchangeRealm, &realm); err != nil {
		t.Fatal(err)
	}
	realm["users"] = []object{{
		"username": Person, "enabled": true, "email": "jo@example.com", "emailVerified": true, "firstName": "Jo", "lastName": "Doe",
		"credentials": []object{{"type": "password", "value": password}}, "realmRoles": []string{"default-roles-exchange"},
	}}
	p.admin(t, "/admin/realms", realm)
	return &Provider{Issuer: p.base + "/realms/exchange", base: p.base}
}

// TokenURL is the URL of the token endpoint.
func (p *Provider) TokenURL() string { return p.Issuer + "/protocol/openid-connect/token" }

// Token gets an access token of Person by the password grant (RFC 6749 section 4.3), through
// Login.
func (p *Provider) Token(t testing.TB) string {
	t.Helper()
	resp, err := http.PostForm(p.TokenURL(), url.Values{"grant_type": {"password"}, "client_id": {Login}, "username": {Person}, "password": {password}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var tokens struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&tokens); err != nil || tokens.AccessToken == "" {
		t.Fatalf("Keycloak gave no token: %s, %v", resp.Status, err)
	}
	return tokens.AccessToken
}
