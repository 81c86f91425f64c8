package workload

import (
	"strings"
	"testing"
)

// guarded is a valid Spec that requires tokens, changed.
func guarded(change func(*Auth)) *Spec {
	s := &Spec{
		Schema: Schema, Name: "a", Remote: &Remote{URL: "https://x.example/mcp"}, Transport: StreamableHTTP,
		Proxy: Proxy{Host: "127.0.0.1", Port: 8080, Mode: "streamable-http"},
		Auth:  &Auth{IssuerURL: "https://idp.example", Audience: "x"},
	}
	change(s.Auth)
	return s
}

func TestValidate_Auth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Auth)
		want   string // "" is valid
	}{
		{"issuer and audience", func(*Auth) {}, ""},
		{"the resource URL is the audience", func(a *Auth) { a.Audience, a.ResourceURL = "", "https://tools.example/mcp" }, ""},
		{"introspection alone", func(a *Auth) { a.IssuerURL, a.IntrospectionURL = "", "https://idp.example/introspect" }, ""},
		{"keys", func(a *Auth) { a.JWKSURL = "https://idp.example/keys?x=y" }, ""},
		{"scopes", func(a *Auth) { a.Scopes = []string{"openid", "a:b/c"} }, ""},
		{"a local issuer", func(a *Auth) { a.IssuerURL = "http://127.0.0.1:8080/realm" }, ""},
		{"HTTP that is allowed", func(a *Auth) { a.IssuerURL, a.AllowHTTP = "http://idp.example", true }, ""},
		{"nothing", func(a *Auth) { *a = Auth{} }, "the issuer of the tokens is missing; give --oidc-issuer"},
		{"a resource URL alone", func(a *Auth) { *a = Auth{ResourceURL: "https://tools.example/mcp"} }, "the issuer of the tokens is missing"},
		{"keys alone", func(a *Auth) { a.IssuerURL, a.JWKSURL = "", "https://idp.example/keys" }, "keys alone do not identify"},
		{"no audience", func(a *Auth) { a.Audience = "" }, "the audience is missing"},
		{"HTTP", func(a *Auth) { a.IssuerURL = "http://idp.example" }, "must be HTTPS"},
		{"HTTP for introspection", func(a *Auth) { a.IntrospectionURL = "http://idp.example/introspect" }, "introspectionUrl"},
		{"an issuer that is no URL", func(a *Auth) { a.IssuerURL = "idp.example" }, "issuerUrl"},
		{"a client without introspection", func(a *Auth) { a.ClientID = "x" }, "introspectionUrl: is required with clientId"},
		{"a secret without a client", func(a *Auth) {
			a.IntrospectionURL, a.ClientSecret = "https://idp.example/i", "workload/a/oidc-client-secret"
		}, "clientId: is required"},
		{"another workload's secret", func(a *Auth) {
			a.IntrospectionURL, a.ClientID, a.ClientSecret = "https://idp.example/i", "x", "workload/b/oidc-client-secret"
		}, "is not the client secret of workload"},
		{"a resource URL that is none", func(a *Auth) { a.ResourceURL = "tools.example" }, "resourceUrl"},
		{"a scope with a blank", func(a *Auth) { a.Scopes = []string{"a b"} }, "scope \"a b\""},
		{"a scope with a quotation mark", func(a *Auth) { a.Scopes = []string{`a"`} }, "scope"},
	} {
		err := Validate(guarded(c.change))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than one fault: %v", c.name, err)
		}
	}
}

// The host of the resource URL is one of the gateway's names.
func TestEndpoint_AllowsTheHostOfTheResource(t *testing.T) {
	t.Parallel()
	s := guarded(func(a *Auth) { a.ResourceURL = "https://tools.example:8443/mcp" })
	s.Proxy.AllowedHosts = []string{"other.example"}
	if got := strings.Join(s.Endpoint().AllowedHosts, " "); got != "other.example tools.example:8443" {
		t.Errorf("got %s", got)
	}
}

func TestProvider_ClientSecretIsReadForEachUse(t *testing.T) {
	t.Parallel()
	s := guarded(func(a *Auth) {
		a.IntrospectionURL, a.ClientID, a.ClientSecret = "https://idp.example/i", "x", "workload/a/oidc-client-secret"
	})
	s.CABundle = "/ca.pem"
	s.Auth.AuthTokenFile, s.Auth.AllowPrivateIP = "/token", true
	p := s.Provider(func(ref string) (string, error) { return "value of " + ref, nil })
	if got, err := p.ClientSecret(); got != "value of workload/a/oidc-client-secret" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if p.CACertPath != "/ca.pem" || p.AuthTokenFile != "/token" || !p.AllowPrivateIP || p.IntrospectionOnly {
		t.Errorf("got %+v", p)
	}
}

func TestGatewayCautions_Authentication(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ host, resource, want string }{
		{"127.0.0.1", "", ""},
		{"0.0.0.0", "", "plain HTTP"},
		{"0.0.0.0", "http://tools.example/mcp", "plain HTTP"},
		{"0.0.0.0", "https://tools.example/mcp", ""},
	} {
		s := guarded(func(a *Auth) { a.ResourceURL = c.resource })
		s.Proxy.Host = c.host
		got := strings.Join(s.GatewayCautions(), " ")
		if strings.Contains(got, "no authentication") || (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %q", c.host, c.resource, got)
		}
	}
}
