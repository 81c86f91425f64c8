package idp

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Token gets an access token for a resource by client credentials (RFC 6749
// section 4.4, RFC 8707): a JWT, unless the resource is one of Options.Opaque.
func (p *Provider) Token(t testing.TB, resource string, scopes ...string) string {
	t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {strings.Join(scopes, " ")}}
	if resource != "" {
		form.Set("resource", resource)
	}
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	body := p.post(t, "/token", ServiceClient, ServiceSecret, form)
	if err := json.Unmarshal(body, &answer); err != nil || answer.AccessToken == "" {
		t.Fatalf("the identity provider gave no token: %s", body)
	}
	return answer.AccessToken
}

// Revoke makes an opaque token of Token inactive (RFC 7009).
func (p *Provider) Revoke(t testing.TB, token string) {
	t.Helper()
	p.post(t, "/token/revocation", ServiceClient, ServiceSecret, url.Values{"token": {token}})
}

// JWKSURL is the URL of its keys.
func (p *Provider) JWKSURL() string { return p.Issuer + "/jwks" }

// IntrospectionURL is the URL of the introspection endpoint (RFC 7662), for
// IntrospectionClient.
func (p *Provider) IntrospectionURL() string { return p.Issuer + "/token/introspection" }

func (p *Provider) post(t testing.TB, path, client, secret string, form url.Values) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.Issuer+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if client != "" { // RFC 6749 section 2.3.1
		req.SetBasicAuth(url.QueryEscape(client), url.QueryEscape(secret))
	}
	resp, err := p.client().Do(req)
	if err != nil {
		t.Fatalf("ask the identity provider: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: answered %s: %s %v", req.URL, resp.Status, body, err)
	}
	return body
}

// client trusts the provider's own certificate and nothing else.
func (p *Provider) client() *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.options.CertPEM)
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: roots},
	}}
}
