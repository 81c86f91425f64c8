package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/auth"
)

// signedIn is a session cookie made as a sign-in makes it.
func (h *harness) signedIn(change func(*session)) *http.Cookie {
	h.Helper()
	c := session{Provider: "main", Issuer: "https://id.example", Subject: "jo", Expires: h.clock().Add(time.Hour).Unix()}
	if change != nil {
		change(&c)
	}
	value, err := h.site.signIn.cookies.seal.close(h.Context(), sessionCookie, c)
	if err != nil {
		h.Fatal(err)
	}
	return &http.Cookie{Name: h.site.signIn.cookies.name(sessionCookie), Value: value}
}

func TestPages_NeedSession(t *testing.T) {
	s := &shelf{name: "default"}
	s.put("io.example/weather", weather)
	h := newHarness(t, withLogin("https://tools.example"), s)
	good := h.signedIn(nil)
	shows(t, h.get("/", good), 200, "Weather", "jo", "Sign out")
	shows(t, h.get("/server/default/io.example/weather", good), 200, "thv registry login")

	elsewhere := newHarness(t, withLogin("https://other.example"), s)
	otherKey := withLogin("https://tools.example")
	otherKey.Key = func(context.Context) ([]byte, error) { return bytes.Repeat([]byte{8}, 32), nil }
	stranger := newHarness(t, otherKey, s)
	attemptValue, err := h.site.signIn.cookies.seal.close(t.Context(), attemptCookie, session{Provider: "main", Issuer: "https://id.example", Expires: h.clock().Add(time.Hour).Unix()})
	if err != nil {
		t.Fatal(err)
	}
	named := func(value string) *http.Cookie { return &http.Cookie{Name: "__Host-thv-session", Value: value} }
	flipped := []byte(good.Value)
	flipped[len(flipped)/2] ^= 1
	for name, cookies := range map[string][]*http.Cookie{
		"no cookie":                   nil,
		"an empty one":                {named("")},
		"garbage":                     {named("!!!")},
		"base64 of garbage":           {named(base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{1}, 100)))},
		"one that is changed":         {named(string(flipped))},
		"one that is cut short":       {named(good.Value[:len(good.Value)-4])},
		"a very long one":             {named(strings.Repeat("A", 5000))},
		"a name without its prefix":   {{Name: "thv-session", Value: good.Value}},
		"another purpose":             {named(attemptValue)},
		"another key":                 {stranger.signedIn(nil)},
		"another registry":            {elsewhere.signedIn(nil)},
		"another provider":            {h.signedIn(func(c *session) { c.Provider = "former" })},
		"another issuer of that name": {h.signedIn(func(c *session) { c.Issuer = "https://former.example" })},
		"expired":                     {h.signedIn(func(c *session) { c.Expires = h.clock().Unix() })},
		"without an expiry":           {h.signedIn(func(c *session) { c.Expires = 0 })},
		"behind too many of the name": {named("a"), named("b"), named("c"), named("d"), good},
	} {
		t.Run(name, func(t *testing.T) {
			for _, target := range []string{"/", "/catalog/default", "/catalog/absent", "/server/default/io.example/weather", "/server/default/io.example/absent?version=1", "/?q=weather"} {
				page := h.get(target, cookies...)
				shows(t, page, 401, "Sign in")
				got := body(t, page)
				if strings.Contains(got, "Weather") || strings.Contains(strings.ReplaceAll(got, "io.example%2Fweather", ""), "io.example/weather") || page.Header.Get("WWW-Authenticate") != "Bearer" {
					t.Errorf("%s: %v\n%s", target, page.Header, got)
				}
			}
		})
	}
	// A cookie of another site does not hide the session.
	shows(t, h.get("/", named("planted"), good), 200, "Weather")
	h.advance(2 * time.Hour)
	shows(t, h.get("/", good), 401)
}

func TestSignInPage_Next(t *testing.T) {
	h := newHarness(t, withLogin("https://tools.example/reg"), &shelf{name: "default"})
	page := body(t, h.get("/server/default/io.example/weather?version=1.0.0"))
	if !strings.Contains(page, `href="/reg/login?next=%2Fserver%2Fdefault%2Fio.example%2Fweather%3Fversion%3D1.0.0"`) {
		t.Error(page)
	}
}

func TestLoginMissing(t *testing.T) {
	s := &shelf{name: "default"}
	s.put("io.example/weather", weather)
	h := newHarness(t, Options{LoginMissing: true, BaseURL: "https://tools.example", Challenge: `Bearer realm="r"`}, s)
	for _, target := range []string{"/", "/catalog/default", "/server/default/io.example/weather", "/login"} {
		page := h.get(target, &http.Cookie{Name: "__Host-thv-session", Value: "x"})
		shows(t, page, 401, "thv registry login", "web.login", "clientId")
		if strings.Contains(body(t, page), "eather") || page.Header.Get("WWW-Authenticate") != `Bearer realm="r"` || page.Header.Get("Cache-Control") != "private, no-store" {
			t.Errorf("%s: %v", target, page.Header)
		}
	}
}

func TestPages_UnreadableRegistry(t *testing.T) {
	a, b, c := &shelf{name: "alpha"}, &shelf{name: "beta"}, &shelf{name: "gamma"}
	a.put("io.example/weather", weather)
	opt := withLogin("https://tools.example")
	opt.MayRead = func(id *auth.Identity, name string) bool {
		teams, _ := id.Claims["teams"].([]any)
		return slices.Contains(teams, any(name)) || id.HasScope("all")
	}
	h := newHarness(t, opt, a, b, c)
	in := func(scopes []string, teams ...string) *http.Cookie {
		return h.signedIn(func(s *session) { s.Scopes, s.Claims = scopes, map[string]any{"teams": teams} })
	}
	shows(t, h.get("/", in([]string{"all"})), 200, "alpha", "beta", "gamma")
	page := h.get("/", in(nil, "beta", "gamma"))
	shows(t, page, 200, "beta", "gamma")
	if strings.Contains(text(t, page), "alpha") {
		t.Error("alpha is listed")
	}
	shows(t, h.get("/", in(nil, "beta")), 200, "no server in this registry yet")
	shows(t, h.get("/", in(nil)), 403, "You may not read any registry", "Sign out")
	shows(t, h.get("/catalog/alpha", in(nil, "beta")), 404, "no such registry")
	shows(t, h.get("/server/alpha/io.example/weather", in(nil, "beta")), 404, "no such registry")
}

func TestSession_WithoutKey(t *testing.T) {
	for name, key := range map[string]func(context.Context) ([]byte, error){
		"none":      func(context.Context) ([]byte, error) { return nil, errors.New("the database is away") },
		"too short": func(context.Context) ([]byte, error) { return []byte("short"), nil },
	} {
		opt := withLogin("https://tools.example")
		opt.Key = key
		s := &shelf{name: "default"}
		s.put("io.example/weather", weather)
		h := newHarness(t, opt, s)
		page := h.get("/", &http.Cookie{Name: "__Host-thv-session", Value: "AAAA"})
		shows(t, page, 503, "Not available now")
		if !strings.Contains(h.log.String(), "seals cookies") || strings.Contains(body(t, page), "Weather") {
			t.Errorf("%s: %s", name, h.log)
		}
		shows(t, h.get("/"), 401) // there is nothing to open
	}
}

func TestCookies_NamesAndPaths(t *testing.T) {
	for base, want := range map[string]*http.Cookie{
		"https://tools.example":      {Name: "__Host-thv-session", Path: "/", Secure: true},
		"https://tools.example/":     {Name: "__Host-thv-session", Path: "/", Secure: true},
		"https://tools.example/reg/": {Name: "__Secure-thv-session", Path: "/reg", Secure: true},
		"http://localhost:8080":      {Name: "thv-session", Path: "/"},
	} {
		h := newHarness(t, withLogin(base), &shelf{name: "default"})
		got := h.site.signIn.cookies.cookie(sessionCookie, "v", time.Minute)
		want.Value, want.MaxAge, want.HttpOnly, want.SameSite = "v", 60, true, http.SameSiteLaxMode
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", base, diff)
		}
	}
}

func TestSession_KeptClaims(t *testing.T) {
	opt := withLogin("https://tools.example")
	opt.KeepClaims = []string{"groups", "absent"}
	h := newHarness(t, opt, &shelf{name: "default"})
	id := &auth.Identity{
		Provider: "main", Issuer: "https://id.example", Subject: "jo", Scopes: []string{"a"},
		Claims: map[string]any{"groups": []any{"x"}, "email": "jo@example.com"},
	}
	for lasts, want := range map[time.Duration]time.Duration{5 * time.Minute: 5 * time.Minute, 24 * time.Hour: 8 * time.Hour, -time.Minute: -time.Minute} {
		id.Expires = h.clock().Add(lasts)
		if _, got := h.site.signIn.newSession(id); got != want {
			t.Errorf("a token for %s makes a session for %s", lasts, got)
		}
	}
	id.Expires = time.Time{}
	got, lasts := h.site.signIn.newSession(id)
	want := session{
		Provider: "main", Issuer: "https://id.example", Subject: "jo", Scopes: []string{"a"},
		Claims: map[string]any{"groups": []any{"x"}}, Expires: h.clock().Add(time.Hour).Unix(),
	}
	if diff := cmp.Diff(want, got); diff != "" || lasts != time.Hour {
		t.Errorf("%s, %s", lasts, diff)
	}
}

func FuzzOpen(f *testing.F) {
	s := &sealer{key: testKey, context: "https://tools.example"}
	good, err := s.close(f.Context(), sessionCookie, session{Subject: "jo"})
	if err != nil {
		f.Fatal(err)
	}
	for _, v := range []string{good, "", "AAAA", good + "A", good[1:]} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got session
		if err := s.open(t.Context(), sessionCookie, text, &got); err == nil && got.Subject != "jo" {
			t.Errorf("%q opens, and we have never sealed it", text)
		} else if err != nil && !errors.Is(err, errCookie) {
			t.Error(err)
		}
	})
}
