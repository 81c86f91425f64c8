package oauthclient

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/oauth"
)

func TestSignIn(t *testing.T) {
	f, s := newFake(t), testStore(t)
	login := f.mustSignIn(s)
	if login.Resource != f.url || login.Issuer != f.issuer || login.ClientID != "client-1" || login.Scope != "read" || !login.Renews ||
		time.Until(login.Expires) < 4*time.Minute || time.Until(login.Expires) > 5*time.Minute {
		t.Errorf("%+v", login)
	}
	asked := f.authorized[0]
	for name, want := range map[string]string{
		"response_type": "code", "client_id": "client-1", "code_challenge_method": "S256", "resource": f.url, // RFC 8707
		"scope": "read write offline_access", "prompt": "consent", "tenant": "1",
	} {
		if asked.Get(name) != want {
			t.Errorf("authorization request: %s=%q, want %q", name, asked.Get(name), want)
		}
	}
	redirect := asked.Get("redirect_uri")
	if u, err := url.Parse(redirect); err != nil || u.Hostname() != "127.0.0.1" || u.Path != "/callback" || u.Port() == "" {
		t.Errorf("redirect URI %s", redirect)
	}
	if len(asked.Get("state")) < 22 || len(f.forms[0].Get("code_verifier")) < 43 {
		t.Error("state or verifier can be guessed")
	}
	if f.forms[0].Get("resource") != f.url || f.forms[0].Get("client_id") != "client-1" || f.auth[0] != "" {
		t.Errorf("token request %v %v", f.forms[0], f.auth)
	}
	want := map[string]any{
		"client_id": "client-1", "client_name": "Toolhaven (thv)", "application_type": "native", "redirect_uris": []any{redirect},
		"grant_types": []any{"authorization_code", "refresh_token"}, "response_types": []any{"code"}, "token_endpoint_auth_method": "none",
		"scope": "read write offline_access",
	}
	if diff := cmp.Diff(want, f.registrations[0]); diff != "" {
		t.Error(diff)
	}
	source, err := s.Source(f.url)
	if err != nil {
		t.Fatal(err)
	}
	if token, err := source.Token(t.Context()); err != nil || !f.access[token] {
		t.Errorf("%v", err)
	}
	for _, file := range keptFiles(t, s) {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	f.mustKeepSecrets(fmt.Sprintf("%v %+v %#v", login, login, login))
	_, kept, _ := s.records.find(t.Context(), mustURL(f.url))
	f.mustKeepSecrets(fmt.Sprintf("%v %+v %#v %s %q", kept, kept, *kept, kept.AccessToken, kept.RefreshToken))
}

func mustURL(raw string) *url.URL {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err)
	}
	return u
}

func TestSignIn_WithoutChallenge(t *testing.T) {
	for name, prepare := range map[string]func(f *fake){
		"no challenge":          func(f *fake) { f.challenge = "none" },
		"another scheme":        func(f *fake) { f.challenge = `Basic realm="x"` },
		"no resource_metadata":  func(f *fake) { f.challenge = `Bearer realm="x"` },
		"a malformed challenge": func(f *fake) { f.challenge = `Bearer realm="x` },
		"at the root of the host": func(f *fake) {
			f.challenge = "none"
			f.resource["resource"] = f.rs.URL
			f.rsPath["/.well-known/oauth-protected-resource/registry/default"] = http.NotFound
			f.rsPath["/.well-known/oauth-protected-resource"] = func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, f.resource) }
		},
		"a page at the first place": func(f *fake) {
			f.challenge = "none"
			f.rsPath["/.well-known/oauth-protected-resource/registry/default"] = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }
			f.rsPath["/.well-known/oauth-protected-resource"] = func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, f.resource) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			prepare(f)
			if _, err := f.signIn(testStore(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSignIn_MetadataLocations(t *testing.T) {
	for issuer, want := range map[string][]string{
		"https://as.example":  {"https://as.example/.well-known/oauth-authorization-server", "https://as.example/.well-known/openid-configuration"},
		"https://as.example/": {"https://as.example/.well-known/oauth-authorization-server", "https://as.example/.well-known/openid-configuration"},
		"https://as.example:8/a/b": {"https://as.example:8/.well-known/oauth-authorization-server/a/b", "https://as.example:8/.well-known/openid-configuration/a/b",
			"https://as.example:8/a/b/.well-known/openid-configuration"},
	} {
		if diff := cmp.Diff(want, oauth.Locations(mustURL(issuer))); diff != "" {
			t.Errorf("%s: %s", issuer, diff)
		}
	}
	f := newFake(t) // an issuer with a path, which only the last form knows
	f.issuer += "/realms/x"
	f.metadata["issuer"] = f.issuer
	f.resource["authorization_servers"] = []string{f.issuer}
	f.asPath["/.well-known/oauth-authorization-server/realms/x"] = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }
	f.asPath["/realms/x/.well-known/openid-configuration"] = func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, f.metadata) }
	f.mustSignIn(testStore(t))
	want := []string{"GET /.well-known/oauth-authorization-server/realms/x", "GET /.well-known/openid-configuration/realms/x", "GET /realms/x/.well-known/openid-configuration"}
	if diff := cmp.Diff(want, f.requests[:3]); diff != "" {
		t.Error(diff)
	}
}

// MCP authorization, "Scope Selection Strategy".
func TestSignIn_Scopes(t *testing.T) {
	withScope := func(f *fake) {
		f.challenge = fmt.Sprintf(`Bearer scope="only this", resource_metadata="%s/.well-known/oauth-protected-resource/registry/default"`, f.rs.URL)
	}
	for name, c := range map[string]struct {
		prepare func(f *fake)
		own     []string
		want    string
	}{
		"the challenge's":      {withScope, nil, "only this offline_access"},
		"the resource's":       {func(*fake) {}, nil, "read write offline_access"},
		"none":                 {func(f *fake) { delete(f.resource, "scopes_supported") }, nil, "offline_access"},
		"none at all":          {func(f *fake) { delete(f.resource, "scopes_supported"); delete(f.metadata, "scopes_supported") }, nil, ""},
		"the person's":         {withScope, []string{"mine"}, "mine offline_access"},
		"no refresh tokens":    {func(f *fake) { f.metadata["grant_types_supported"] = []string{"authorization_code"} }, nil, "read write"},
		"offline asked anyway": {withScope, []string{"offline_access"}, "offline_access"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			c.prepare(f)
			r := f.request()
			r.Scopes = c.own
			if _, err := testStore(t).SignIn(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if got := f.authorized[0].Get("scope"); got != c.want || f.authorized[0].Has("scope") != (c.want != "") {
				t.Errorf("asked for %q", got)
			}
		})
	}
}

func TestSignIn_OpenResource(t *testing.T) {
	f := newFake(t)
	f.acceptsAll = true
	if _, err := f.signIn(testStore(t)); !errors.Is(err, ErrOpen) {
		t.Errorf("got %v", err)
	}
}

func TestSignIn_PlainHTTP(t *testing.T) {
	s := testStore(t)
	for _, target := range []string{"http://registry.example/x", "http://10.0.0.1/x", "http://127.0.0.1.evil.example/x", "ftp://a/b", "nonsense", "https://a:b@c/d"} {
		if _, err := s.SignIn(t.Context(), Request{Target: target}); err == nil {
			t.Errorf("%s: signed in", target)
		}
		if _, err := s.Source(target); err == nil {
			t.Errorf("%s: a source", target)
		}
	}
}

func TestSignIn_ChosenIssuer(t *testing.T) {
	f, g := newFake(t), newFake(t)
	f.resource["authorization_servers"] = []string{"https://first.example", g.issuer}
	r := f.request()
	r.Issuer, r.Show = g.issuer, func(address string) { go g.browse(address) }
	g.redirect = func(url.Values) {}
	g.token = func(w http.ResponseWriter, _ url.Values) bool {
		m := g.grant()
		f.with(func() { f.access[m["access_token"].(string)] = true })
		writeJSON(w, 200, m)
		return true
	}
	login, err := testStore(t).SignIn(t.Context(), r)
	if err != nil || login.Issuer != g.issuer {
		t.Fatalf("%+v, %v", login, err)
	}
	r.Issuer = "https://third.example"
	if _, err := testStore(t).SignIn(t.Context(), r); err == nil || !strings.Contains(err.Error(), "does not accept tokens of https://third.example; it names https://first.example, "+g.issuer) {
		t.Errorf("got %v", err)
	}
}
