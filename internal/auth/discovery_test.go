package auth

import (
	"net/http"
	"strings"
	"testing"

	jose "github.com/go-jose/go-jose/v4"
)

func TestDiscovery(t *testing.T) {
	p, evil := newIssuer(t), newIssuer(t)
	s := newSigner(t, jose.ES256, "k1")
	p.publish(s)
	evil.publish(s)
	good := `"issuer":"` + p.URL + `","jwks_uri":"` + p.URL + jwksPath + `"`
	for _, c := range []struct {
		rule, name, document string
		want                 string // "" is accepted
	}{
		{"OIDC Discovery 4.3", "the issuer's own", `{` + good + `,"x":[1,{}]}`, ""},
		{"OIDC Discovery 4.3", "another issuer's", `{"issuer":"` + evil.URL + `","jwks_uri":"` + evil.URL + jwksPath + `"}`, "metadata of another issuer"},
		{"OIDC Discovery 4.3", "with a slash", `{"issuer":"` + p.URL + `/","jwks_uri":"` + p.URL + jwksPath + `"}`, "metadata of another issuer"},
		{"OIDC Discovery 4.3", "in another case", `{"issuer":"` + strings.ToUpper(p.URL) + `","jwks_uri":"` + p.URL + jwksPath + `"}`, "metadata of another issuer"},
		{"OIDC Discovery 4.3", "no issuer", `{"jwks_uri":"` + p.URL + jwksPath + `"}`, "metadata of another issuer"},
		{"OIDC Discovery 4.3", "a list of issuers", `{"issuer":["` + p.URL + `"],"jwks_uri":"` + p.URL + jwksPath + `"}`, `"issuer" is not of the type`},
		{"OIDC Discovery 4.3", "two issuers", `{"issuer":"` + evil.URL + `",` + good + `}`, "two members"},
		{"OIDC Discovery 3", "no jwks_uri", `{"issuer":"` + p.URL + `"}`, "jwks_uri"},
		{"OIDC Discovery 3", "a list as jwks_uri", `{"issuer":"` + p.URL + `","jwks_uri":["` + p.URL + jwksPath + `"]}`, "jwks_uri"},
		{"OIDC Discovery 3", "keys by plain HTTP", `{"issuer":"` + p.URL + `","jwks_uri":"http://keys.example/jwks"}`, "must be HTTPS"},
		{"OIDC Discovery 3", "keys in a file", `{"issuer":"` + p.URL + `","jwks_uri":"file:///etc/passwd"}`, "http(s) URL"},
		{"OIDC Discovery 3", "keys at a relative place", `{"issuer":"` + p.URL + `","jwks_uri":"/jwks"}`, "http(s) URL"},
		{"OIDC Discovery 3", "a host that only looks like this machine", `{"issuer":"` + p.URL + `","jwks_uri":"http://127.0.0.1.evil.example/jwks"}`, "must be HTTPS"},
		{"OIDC Discovery 3", "keys with a name and password", `{"issuer":"` + p.URL + `","jwks_uri":"https://a:b@keys.example/jwks"}`, "user information"},
		{"OIDC Discovery 3", "a query, which some have", `{"issuer":"` + p.URL + `","jwks_uri":"` + p.URL + jwksPath + `?p=policy"}`, ""},
		{"OIDC Discovery 4.2", "an array", `[{` + good + `}]`, "not a JSON object"},
		{"OIDC Discovery 4.2", "a web page", `<html>`, "not a JSON object"},
		{"bounds", "too large", `{` + good + `,"x":"` + strings.Repeat("x", maxResponse) + `"}`, "larger than"},
	} {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			p.says(discoveryPath, c.document)
			v := newValidator(t, p.provider("main"))
			_, err := v.Validate(t.Context(), s.sign(t, "", p.claims(nil)))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(reasons(err), c.want)) {
				t.Errorf("got %s", reasons(err))
			}
			if c.want != "" && !strings.Contains(reasons(err), p.URL+discoveryPath) {
				t.Errorf("the failing URL is not in %s", reasons(err))
			}
		})
	}
	if evil.fetches.Load() != 0 {
		t.Error("keys were fetched from another issuer")
	}
}

// With jwksUrl there is no discovery. Without it, discovery is repeated when the keys
// are no longer at the discovered URL.
func TestDiscovery_WhenFetched(t *testing.T) {
	p, moved := newIssuer(t), newIssuer(t)
	old, next := newSigner(t, jose.ES256, "old"), newSigner(t, jose.ES256, "new")
	p.publish(old)
	moved.publish(next)
	v := newValidator(t, p.provider("main"))
	if _, err := v.Validate(t.Context(), old.sign(t, "", p.claims(nil))); err != nil {
		t.Fatal(reasons(err))
	}
	p.says(discoveryPath, `{"issuer":"`+p.URL+`","jwks_uri":"`+moved.URL+jwksPath+`"}`)
	p.serve(jwksPath, func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) })
	newToken := next.sign(t, "", p.claims(nil))
	if _, err := v.Validate(t.Context(), newToken); err != nil {
		t.Error("the new place was not found: ", reasons(err))
	}
	p.serve(discoveryPath, func(http.ResponseWriter, *http.Request) { t.Error("discovery was asked") })
	provider := p.provider("explicit")
	provider.JWKSURL = moved.URL + jwksPath
	if _, err := newValidator(t, provider).Validate(t.Context(), newToken); err != nil {
		t.Error(reasons(err))
	}
}

func TestNewValidator_ConfigurationFaults(t *testing.T) {
	_, err := NewValidator([]Provider{
		{Name: "a", IssuerURL: "http://example.com", Audience: ""},
		{Name: "", IssuerURL: "https://ok.example", Audience: "x", ClientSecretFile: "/f"},
		{Name: "b", IssuerURL: "https://ok.example?x", Audience: "x", JWKSURL: "http://127.evil.example/jwks", ClientID: "c"},
		{Name: "c", IssuerURL: "https://ok.example", Audience: "x"},
		{Name: "c", IssuerURL: "https://ok.example", Audience: "x"},
	}, Options{})
	for _, want := range []string{
		`providers[0] "a": audience: is required`, "issuerUrl", "must be HTTPS",
		"name: is required", "clientId: is required with clientSecretFile",
		"jwksUrl", "introspectionUrl: is required with clientId", `the name "c" is used twice`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %s", err, want)
		}
	}
	if _, err := NewValidator(nil, Options{}); err == nil {
		t.Error("no provider is no fault")
	}
}
