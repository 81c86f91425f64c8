package auth

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func newResource(t testing.TB, raw string) *Resource {
	t.Helper()
	r, err := NewResource(ResourceConfig{URL: raw, Realm: "r", AuthorizationServers: []string{"https://as.example"}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// RFC 9728 section 3.1: where the metadata of a resource is.
func TestResource_Paths(t *testing.T) {
	for _, c := range []struct {
		resource, url string
		paths         []string
	}{
		{"https://r.example", "https://r.example" + wellKnown, []string{wellKnown}},
		{"https://r.example/", "https://r.example" + wellKnown, []string{wellKnown}},
		{"https://r.example/registry", "https://r.example" + wellKnown + "/registry", []string{wellKnown, wellKnown + "/registry"}},
		{"https://r.example/registry/", "https://r.example" + wellKnown + "/registry/", []string{wellKnown, wellKnown + "/registry", wellKnown + "/registry/"}},
		{"https://r.example:8443/a/b", "https://r.example:8443" + wellKnown + "/a/b", []string{wellKnown, wellKnown + "/a/b"}},
		{"http://[::1]:8080/mcp", "http://[::1]:8080" + wellKnown + "/mcp", []string{wellKnown, wellKnown + "/mcp"}},
		{"https://[2001:db8::1]", "https://[2001:db8::1]" + wellKnown, []string{wellKnown}},
		{"https://r.example/with%20blank", "https://r.example" + wellKnown + "/with%20blank", []string{wellKnown, wellKnown + "/with%20blank"}},
		{"https://r.example/%7Bname%7D", "https://r.example" + wellKnown + "/%7Bname%7D", []string{wellKnown, wellKnown + "/%7Bname%7D"}},
		{"https://r.example/ü", "https://r.example" + wellKnown + "/%C3%BC", []string{wellKnown, wellKnown + "/%C3%BC"}},
	} {
		r := newResource(t, c.resource)
		if r.MetadataURL() != c.url {
			t.Errorf("%s: metadata at %s", c.resource, r.MetadataURL())
		}
		if diff := cmp.Diff(c.paths, r.Paths()); diff != "" {
			t.Errorf("%s: %s", c.resource, diff)
		}
		// Served there, with the resource as it was configured, by a mux too.
		mux := http.NewServeMux()
		for _, path := range r.Paths() {
			mux.Handle(path, r)
		}
		at, _ := url.Parse(c.url)
		for path, want := range map[string]int{
			at.EscapedPath(): 200, wellKnown: 200, wellKnown + "/other": 404, strings.TrimSuffix(at.EscapedPath(), "/") + "/below": 404, wellKnown + "x": 404,
		} {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			if w.Code != want {
				t.Errorf("%s: %s answers %d", c.resource, path, w.Code)
			}
			var got struct{ Resource string }
			if want == 200 && (json.Unmarshal(w.Body.Bytes(), &got) != nil || got.Resource != c.resource) {
				t.Errorf("%s: %s", c.resource, w.Body)
			}
		}
	}
}

func TestNewResource_Faults(t *testing.T) {
	for _, c := range []struct{ rule, url string }{
		{"RFC 9728 1.2", ""}, {"RFC 9728 1.2", "r.example"}, {"RFC 9728 1.2", "/registry"}, {"RFC 9728 1.2", "ftp://r.example"},
		{"RFC 9728 1.2", "https://"}, {"RFC 9728 1.2", "https://r.example/#x"}, {"RFC 9728 1.2", "https://r.example/#"},
		{"RFC 9728 1.2", "https://u:p@r.example"}, {"RFC 9728 1.2", "https://r.example?x"}, {"RFC 9728 1.2", "https://r.example/?"},
		{"RFC 6874 1", "http://[fe80::1%25eth0]/"}, {"RFC 3986 3.2.2", "http://[::1/"}, {"RFC 3986 3.2", "https://r.example:port/"},
		{"RFC 3986 5.2.4", "https://r.example/a/../b"}, {"RFC 3986 5.2.4", "https://r.example/./a"}, {"RFC 3986 2.1", "https://r.example/%2e%2e/a"},
		{"no request has it", "https://r.example//a"}, {"no request has it", "https://r.example//"}, {"no request has it", "https://r.example/a//"},
		{"no request has it", "https://r.example/a%2Fb"}, {"no request has it", `https://r.example/a\b`}, {"RFC 3986 2.1", "https://r.example/%zz"},
	} {
		if _, err := NewResource(ResourceConfig{URL: c.url}); err == nil || !strings.Contains(err.Error(), "resourceUrl") || strings.Contains(err.Error(), ":p@") {
			t.Errorf("%s: %q: %v", c.rule, c.url, err)
		}
	}
	if _, err := NewResource(ResourceConfig{URL: "https://r.example", Realm: "a\r\nSet-Cookie: x"}); err == nil {
		t.Error("a realm with a line break was accepted")
	}
}

// RFC 9728 section 2.
func TestResource_Metadata(t *testing.T) {
	r, err := NewResource(ResourceConfig{
		URL: "https://r.example/registry", AuthorizationServers: []string{"https://b.example", "https://a.example/"},
		Scopes: []string{"read"}, Documentation: "https://docs.example",
	})
	if err != nil {
		t.Fatal(err)
	}
	for method, status := range map[string]int{"GET": 200, "HEAD": 200, "OPTIONS": 204, "POST": 405, "DELETE": 405} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(method, wellKnown+"/registry", nil))
		if w.Code != status || w.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d %v", method, w.Code, w.Header())
		}
		if method != "GET" {
			continue
		}
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"resource": "https://r.example/registry", "authorization_servers": []any{"https://b.example", "https://a.example/"},
			"bearer_methods_supported": []any{"header"}, "resource_documentation": "https://docs.example", "scopes_supported": []any{"read"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if w.Header().Get("Content-Type") != "application/json" {
			t.Error(w.Header())
		}
	}
}
