package authn

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/auth"
	"github.com/toolhaven/toolhaven/internal/endpoint"
)

func newStage(t *testing.T, change func(*Config)) http.Handler {
	t.Helper()
	cfg := Config{
		Provider: auth.Provider{Name: "main", IssuerURL: "http://127.0.0.1:1", Audience: "x"},
		Endpoint: endpoint.Config{Mode: endpoint.Streamable}, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	stage, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stage.Close)
	return stage.Wrap(http.NotFoundHandler())
}

func send(h http.Handler, path string, headers ...string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8080"+path, nil)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// The resource of the challenge's document is the URL that the client used, whatever lies
// between it and the gateway: strict clients compare the two byte for byte (RFC 9728
// section 3.3).
func TestResource_IsTheURLOfTheClient(t *testing.T) {
	t.Parallel()
	trust := func(c *Config) { c.TrustProxyHeaders = true }
	sse := func(c *Config) { c.Endpoint.Mode = endpoint.SSE }
	prefix := func(c *Config) { c.Endpoint.Mode, c.Endpoint.Prefix = endpoint.SSE, "/tools/x/" }
	fixed := func(c *Config) { c.Resource.URL, c.TrustProxyHeaders = "https://tools.example/x/mcp", true }
	proxy := []string{"X-Forwarded-Proto: https", "X-Forwarded-Host: tools.example"}
	with := func(headers ...string) []string { return append(append([]string{}, proxy...), headers...) }
	for _, c := range []struct {
		name    string
		change  func(*Config)
		headers []string
		want    string
	}{
		{"an address", nil, nil, "http://127.0.0.1:8080/mcp"},
		{"a name", nil, []string{"Host: localhost:1234"}, "http://localhost:1234/mcp"},
		{"a name in capitals", nil, []string{"Host: LocalHost:1234"}, "http://LocalHost:1234/mcp"},
		{"a name without a port", nil, []string{"Host: tools.example"}, "http://tools.example/mcp"},
		{"IPv6", nil, []string{"Host: [::1]:1234"}, "http://[::1]:1234/mcp"},
		{"IPv6 with a zone", nil, []string{"Host: [::1%25lo]:1234"}, "http://localhost/mcp"},
		{"SSE", sse, nil, "http://127.0.0.1:8080/sse"},
		{"SSE with a prefix", prefix, nil, "http://127.0.0.1:8080/tools/x/sse"},
		{"headers of no trusted proxy", nil, with("X-Forwarded-Prefix: /x", "X-Forwarded-Port: 1"), "http://127.0.0.1:8080/mcp"},
		{"a proxy", trust, proxy, "https://tools.example/mcp"},
		{"a proxy with a prefix", trust, with("X-Forwarded-Prefix: /x/y/"), "https://tools.example/x/y/mcp"},
		{"a proxy with a port in the host", trust, []string{"X-Forwarded-Proto: https", "X-Forwarded-Host: tools.example:8443"}, "https://tools.example:8443/mcp"},
		{"a proxy with a port", trust, with("X-Forwarded-Port: 8443"), "https://tools.example:8443/mcp"},
		{"a proxy with the scheme's port", trust, with("X-Forwarded-Port: 443"), "https://tools.example/mcp"},
		{"a proxy with a port that is none", trust, with("X-Forwarded-Port: x/y"), "https://tools.example/mcp"},
		{"a proxy without a host", trust, []string{"X-Forwarded-Proto: https"}, "https://127.0.0.1:8080/mcp"},
		{"a proxy with two hosts", trust, with("X-Forwarded-Host: evil.example"), "https://127.0.0.1:8080/mcp"},
		{"a proxy with a list of hosts", trust, []string{"X-Forwarded-Host: a.example, b.example"}, "http://127.0.0.1:8080/mcp"},
		{"a proxy with a host that is none", trust, []string{`X-Forwarded-Host: a"b/c`}, "http://127.0.0.1:8080/mcp"},
		{"a proxy with another scheme", trust, []string{"X-Forwarded-Proto: ftp", "X-Forwarded-Host: tools.example"}, "http://tools.example/mcp"},
		{"a proxy with a prefix that is none", trust, with("X-Forwarded-Prefix: //evil.example"), "https://tools.example/mcp"},
		{"configured", fixed, with("X-Forwarded-Prefix: /y"), "https://tools.example/x/mcp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newStage(t, c.change)
			refused := send(h, "/anything", c.headers...)
			_, rest, _ := strings.Cut(refused.Header.Get("WWW-Authenticate"), `resource_metadata="`)
			metadata, _, _ := strings.Cut(rest, `"`)
			// RFC 9728 section 3.1: the well-known path is inserted before the path.
			scheme, address, _ := strings.Cut(c.want, "://")
			host, path, _ := strings.Cut(address, "/")
			if want := scheme + "://" + host + "/.well-known/oauth-protected-resource/" + path; refused.StatusCode != 401 || metadata != want {
				t.Errorf("the challenge is %q, want %q", refused.Header.Get("WWW-Authenticate"), want)
			}
			for _, location := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/" + path} {
				answer := send(h, location, c.headers...)
				var document struct {
					Resource string
					Servers  []string `json:"authorization_servers"`
				}
				body, _ := io.ReadAll(answer.Body)
				if err := json.Unmarshal(body, &document); err != nil || document.Resource != c.want || len(document.Servers) != 1 {
					t.Errorf("%s: %d %s", location, answer.StatusCode, body)
				}
			}
		})
	}
}

// Without an issuer there is no authorization server to name: RFC 9728 section 3.2 allows
// no empty array.
func TestResource_WithoutIssuer(t *testing.T) {
	t.Parallel()
	h := newStage(t, func(c *Config) {
		c.Provider = auth.Provider{Name: "main", Audience: "x", IntrospectionURL: "http://127.0.0.1:1/introspect", IntrospectionOnly: true}
	})
	body, _ := io.ReadAll(send(h, "/.well-known/oauth-protected-resource").Body)
	if strings.Contains(string(body), "authorization_servers") || !strings.Contains(string(body), `"resource":"http://127.0.0.1:8080/mcp"`) {
		t.Errorf("got %s", body)
	}
}

func TestNew_Faults(t *testing.T) {
	t.Parallel()
	provider := auth.Provider{Name: "main", IssuerURL: "https://idp.example", Audience: "x"}
	for want, cfg := range map[string]Config{
		"resourceUrl": {Provider: provider, Resource: auth.ResourceConfig{URL: "tools.example"}},
		"audience":    {Provider: auth.Provider{Name: "main", IssuerURL: "https://idp.example"}},
		"caCertPath":  {Provider: auth.Provider{Name: "main", IssuerURL: "https://idp.example", Audience: "x", CACertPath: "/nowhere/ca.pem"}},
	} {
		cfg.Log = slog.New(slog.DiscardHandler)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}
