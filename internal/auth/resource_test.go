package auth

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
)

func TestMetadataLocationsFollowTheResource(t *testing.T) {
	for raw, want := range map[string]struct {
		url   string
		paths []string
	}{
		"https://r.example":              {"https://r.example/.well-known/oauth-protected-resource", []string{wellKnown}},
		"https://r.example/":             {"https://r.example/.well-known/oauth-protected-resource", []string{wellKnown}},
		"https://r.example/registry":     {"https://r.example/.well-known/oauth-protected-resource/registry", []string{wellKnown, wellKnown + "/registry"}},
		"https://r.example:8443/a/b/":    {"https://r.example:8443/.well-known/oauth-protected-resource/a/b", []string{wellKnown, wellKnown + "/a/b"}},
		"http://[::1]:8080/mcp":          {"http://[::1]:8080/.well-known/oauth-protected-resource/mcp", []string{wellKnown, wellKnown + "/mcp"}},
		"https://r.example/with%20blank": {"https://r.example/.well-known/oauth-protected-resource/with%20blank", []string{wellKnown, wellKnown + "/with%20blank"}},
	} {
		r, err := NewResource(ResourceConfig{URL: raw, AuthorizationServers: []string{"https://as.example"}})
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if r.MetadataURL() != want.url {
			t.Errorf("%s: metadata at %s", raw, r.MetadataURL())
		}
		if diff := cmp.Diff(want.paths, r.Paths()); diff != "" {
			t.Errorf("%s: %s", raw, diff)
		}
	}
	for _, bad := range []string{"", "r.example", "ftp://r.example", "https://", "https://r.example/#x", "https://u@r.example", "https://r.example?x"} {
		if _, err := NewResource(ResourceConfig{URL: bad}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func protected(t *testing.T) (*idp, *signer, *httptest.Server) {
	t.Helper()
	p := newIDP(t)
	s := newSigner(t, jose.ES256, "k1")
	p.publish(s)
	resource, err := NewResource(ResourceConfig{URL: "https://r.example/registry", Realm: `the "realm"`, AuthorizationServers: []string{p.URL}, Documentation: "https://docs.example"})
	if err != nil {
		t.Fatal(err)
	}
	v := newValidator(t, nil, p.provider("main"))
	mux := http.NewServeMux()
	for _, path := range resource.Paths() {
		mux.Handle(path, resource)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	mux.Handle("GET /secret", Require(v, resource, log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(From(r.Context()).Subject)
	})))
	mux.Handle("POST /secret", Require(v, resource, log, RequireScope(resource, "write", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return p, s, server
}

func TestRequestsAreLetThroughOrChallenged(t *testing.T) {
	p, s, server := protected(t)
	good := s.sign(t, "", p.claims(nil))
	expired := s.sign(t, "", p.claims(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}))
	for name, c := range map[string]struct {
		headers []string
		status  int
		code    string // of WWW-Authenticate; "" is none
	}{
		"no credential":       {nil, 401, ""},
		"a good token":        {[]string{"Bearer " + good}, 200, ""},
		"scheme in lowercase": {[]string{"bearer " + good}, 200, ""},
		"an expired token":    {[]string{"Bearer " + expired}, 401, "invalid_token"},
		"two blanks":          {[]string{"Bearer  " + good}, 401, "invalid_request"},
		"a quoted token":      {[]string{`Bearer "` + good + `"`}, 401, "invalid_request"},
		"no token":            {[]string{"Bearer"}, 401, "invalid_request"},
		"an empty token":      {[]string{"Bearer "}, 401, "invalid_request"},
		"another scheme":      {[]string{"Basic abc"}, 401, "invalid_request"},
		"two headers":         {[]string{"Bearer " + good, "Bearer " + good}, 401, "invalid_request"},
		"words after it":      {[]string{"Bearer " + good + " x"}, 401, "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			req, _ := http.NewRequest("GET", server.URL+"/secret", nil)
			req.Header["Authorization"] = c.headers
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != c.status {
				t.Fatalf("status %d", resp.StatusCode)
			}
			if c.status == 200 {
				return
			}
			challenge := resp.Header.Get("WWW-Authenticate")
			if !strings.HasPrefix(challenge, `Bearer realm="the \"realm\"", resource_metadata="https://r.example/.well-known/oauth-protected-resource/registry"`) {
				t.Errorf("challenge %s", challenge)
			}
			if has := strings.Contains(challenge, "error="); has != (c.code != "") || c.code != "" && !strings.Contains(challenge, `error="`+c.code+`"`) {
				t.Errorf("challenge %s, want error %q", challenge, c.code)
			}
			var body struct {
				Error       string `json:"error"`
				Description string `json:"error_description"`
			}
			if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || body.Error == "" || body.Description == "" {
				t.Errorf("body %+v, %v", body, err)
			}
			for _, h := range c.headers {
				if token := strings.TrimPrefix(h, "Bearer "); len(token) > 20 && strings.Contains(challenge+body.Description, token) {
					t.Error("the token is repeated")
				}
			}
		})
	}
}

func TestAScopeThatIsMissingIsForbidden(t *testing.T) {
	p, s, server := protected(t)
	for scope, want := range map[string]int{"a b": 403, "a write": 200} {
		req, _ := http.NewRequest("POST", server.URL+"/secret", nil)
		req.Header.Set("Authorization", "Bearer "+s.sign(t, "", p.claims(map[string]any{"scope": scope})))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("scope %q: status %d", scope, resp.StatusCode)
		}
		if want == 403 && !strings.Contains(resp.Header.Get("WWW-Authenticate"), `error="insufficient_scope"`) {
			t.Errorf("challenge %s", resp.Header.Get("WWW-Authenticate"))
		}
	}
}

func TestTheMetadataDocument(t *testing.T) {
	p, _, server := protected(t)
	for _, path := range []string{wellKnown, wellKnown + "/registry"} {
		resp, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var got map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"resource": "https://r.example/registry", "authorization_servers": []any{p.URL},
			"bearer_methods_supported": []any{"header"}, "resource_documentation": "https://docs.example",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	if resp, err := http.Get(server.URL + wellKnown + "/other"); err != nil || resp.StatusCode != 404 {
		t.Errorf("metadata of another resource: %v, %v", resp.Status, err)
	}
}

func TestTheTokenFileGoesToTheConfiguredOriginOnly(t *testing.T) {
	p := newIDP(t)
	s := newSigner(t, jose.ES256, "k1")
	p.publish(s)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.lastAuth.Store("elsewhere:" + r.Header.Get("Authorization"))
		p.mu.Lock()
		defer p.mu.Unlock()
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: p.keys})
	}))
	defer elsewhere.Close()
	front := httptest.NewServer(nil)
	front.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]string{"issuer": front.URL, "jwks_uri": elsewhere.URL + "/jwks"})
	})
	defer front.Close()
	file := t.TempDir() + "/token"
	if err := os.WriteFile(file, []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v := newValidator(t, nil, Provider{Name: "a", IssuerURL: front.URL, Audience: "registry", AuthTokenFile: file})
	if _, err := v.Validate(t.Context(), s.sign(t, "", p.claims(map[string]any{"iss": front.URL}))); err != nil {
		t.Fatal(reasons(err))
	}
	if got := p.lastAuth.Load(); got != "elsewhere:" {
		t.Errorf("another origin was sent %q", got)
	}
	// To its own origin it goes, and the file is read anew for each fetch.
	c := &clock{}
	v = newValidator(t, c, Provider{Name: "a", IssuerURL: p.URL, Audience: "registry", AuthTokenFile: file})
	for _, word := range []string{"second", "third"} {
		if err := os.WriteFile(file, []byte(word), 0o600); err != nil {
			t.Fatal(err)
		}
		stranger := *s
		stranger.kid = word // unknown: causes a fetch
		v.Validate(t.Context(), stranger.sign(t, "", p.claims(nil)))
		if got := p.lastAuth.Load(); got != "Bearer "+word {
			t.Errorf("sent %q, want the content %q", got, word)
		}
		c.advance(refetchEvery)
	}
}
