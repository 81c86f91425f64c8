package authserver

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/authserver/storage/memory"
	"github.com/toolhaven/toolhaven/internal/authserver/upstream"
	"github.com/toolhaven/toolhaven/internal/externalauth"
)

// fuzzed is a server whose limits are out of the way, and a registered client.
func fuzzed(f *testing.F) (h http.Handler, s *Server, client string) {
	f.Helper()
	s, err := New(Config{
		Spec:     &externalauth.EmbeddedAuthServer{Issuer: "https://as.example", UpstreamProviders: []externalauth.UpstreamProvider{{Name: "main"}}},
		Resource: testResource, Store: memory.New(memory.Options{Entries: 100}), Key: []byte(strings.Repeat("k", 32)),
		Upstreams: []Upstream{&provider{name: "main", person: upstream.Identity{Subject: "ann"}}}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		f.Fatal(err)
	}
	s.clients.registrations.burst, s.logins.starts.burst = 1<<30, 1<<30
	h = s.Wrap(http.NotFoundHandler())
	w := send(h, http.MethodPost, pathRegister, "application/json", `{"redirect_uris":["`+webRedirect+`"]}`)
	var answer registration
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		f.Fatal(err)
	}
	return h, s, answer.ClientID
}

func send(h http.Handler, method, target, contentType, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "https://as.example"+pathToken, strings.NewReader(body))
	path, query, _ := strings.Cut(target, "?")
	r.URL.Path, r.URL.RawQuery = path, query
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A registration that is accepted has redirects by the rules only, and its client_id opens to
// them.
func FuzzRegister(f *testing.F) {
	h, s, _ := fuzzed(f)
	f.Add(`{"redirect_uris":["https://a.example/"],"client_name":"A","software_statement":"a.b.c"}`)
	f.Add(`{"redirect_uris":["javascript:1"],"grant_types":[null]}`)
	f.Fuzz(func(t *testing.T, body string) {
		w := send(h, http.MethodPost, pathRegister, "application/json", body)
		if w.Code >= 500 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if w.Code != http.StatusCreated {
			return
		}
		var answer registration
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		c, err := s.clients.get(httptest.NewRequestWithContext(t.Context(), "POST", "/", nil), answer.ClientID)
		if err != nil || !slices.Equal(c.Redirects, answer.Redirects) {
			t.Fatalf("%v: %v", err, answer)
		}
		for _, r := range c.Redirects {
			if err := checkRedirect(r); err != nil {
				t.Error(err)
			}
		}
	})
}

// An authorization request ends on a page, at the provider, or at the registered redirect.
func FuzzAuthorize(f *testing.F) {
	h, _, client := fuzzed(f)
	good := url.Values{
		"client_id": {client}, "redirect_uri": {webRedirect}, "response_type": {"code"}, "state": {"s"},
		"code_challenge": {strings.Repeat("a", 43)}, "code_challenge_method": {"S256"}, "resource": {testResource},
	}.Encode()
	f.Add(good)
	f.Add(good + "&redirect_uri=https://evil.example")
	f.Add(strings.Replace(good, "app.example", "app.example%40evil.example", 1))
	f.Fuzz(func(t *testing.T, query string) {
		w := send(h, http.MethodGet, pathAuthorize+"?"+query, "", "")
		if w.Code >= 500 && w.Code != http.StatusServiceUnavailable { // the store is full
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if to := w.Header().Get("Location"); to != "" && !strings.HasPrefix(to, "https://main.example/") && !strings.HasPrefix(to, webRedirect+"?") {
			t.Errorf("it leads to %q", to)
		}
	})
}

// What is not a code or token of this server gives none.
func FuzzToken(f *testing.F) {
	h, _, client := fuzzed(f)
	f.Add("grant_type=authorization_code&code=x&client_id=" + client)
	f.Add("grant_type=refresh_token&refresh_token=a.1.b&client_id=" + client)
	f.Add("token=a.b.c&client_id=" + client)
	f.Fuzz(func(t *testing.T, form string) {
		for _, path := range []string{pathToken, pathRevoke, pathIntrospect} {
			w := send(h, http.MethodPost, path, "application/x-www-form-urlencoded", form)
			if w.Code >= 500 || path == pathToken && w.Code == http.StatusOK || strings.Contains(w.Body.String(), `"active":true`) {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	})
}

// No text but a client_id of this server is one.
func FuzzClientID(f *testing.F) {
	_, s, client := fuzzed(f)
	f.Add(client)
	f.Add(other(client))
	f.Fuzz(func(t *testing.T, id string) {
		if strings.HasPrefix(id, "http") { // fetched
			return
		}
		// Each process that fuzzes has registered a client of its own.
		if c, err := s.clients.get(httptest.NewRequestWithContext(t.Context(), "POST", "/", nil), id); err == nil && !slices.Equal(c.Redirects, []string{webRedirect}) {
			t.Errorf("forged: %q", id)
		}
	})
}
