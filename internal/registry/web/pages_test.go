package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/store"
)

const weather = `"title": "Weather", "description": "Forecasts of everywhere",
 "repository": {"url": "https://git.example/weather", "source": "github"}, "websiteUrl": "https://weather.example/about",
 "packages": [{"registryType": "npm", "identifier": "@example/weather", "version": "1.0.0", "transport": {"type": "stdio"},
  "environmentVariables": [
   {"name": "REGION", "description": "Where you are", "isRequired": true, "choices": ["eu", "us"]},
   {"name": "API_KEY", "description": "Your key", "isRequired": true, "isSecret": true},
   {"name": "UNITS", "default": "metric"}]}],
 "_meta": {"io.modelcontextprotocol.registry/publisher-provided": {"dev.toolhaven": {"tags": ["sky", "travel"], "tools": ["forecast"],
  "permissions": {"network": {"outbound": {"allow_host": ["api.weather.example"], "allow_port": [443]}}}}}}`

func TestHome_OneRegistry(t *testing.T) {
	s := &shelf{name: "default"}
	s.put("io.example/weather", weather)
	old := s.put("io.example/old", `"description": "Of another time", "remotes": [{"type": "sse", "url": "https://old.example/sse"}]`)
	old.Status = registry.Deprecated
	h := newHarness(t, Options{}, s)
	page := h.get("/")
	shows(t, page, 200, "Weather", "io.example/weather", "Forecasts of everywhere", "npx", "sky", "travel", "1.0.0", "remote", "deprecated")
	if !strings.Contains(body(t, page), `href="/server/default/io.example/weather"`) {
		t.Error("no link to the server")
	}
}

func TestHome_SeveralRegistries(t *testing.T) {
	a, b := &shelf{name: "alpha"}, &shelf{name: "beta"}
	b.put("io.example/weather", weather)
	h := newHarness(t, Options{}, a, b)
	page := h.get("/")
	shows(t, page, 200, "alpha", "beta")
	if !strings.Contains(body(t, page), `href="/catalog/beta"`) || strings.Contains(body(t, page), "weather") {
		t.Error(body(t, page))
	}
	shows(t, h.get("/catalog/alpha"), 200, "no server in this registry yet")
	shows(t, h.get("/catalog/beta"), 200, "Weather", "Registries")
	shows(t, h.get("/catalog/gamma"), 404, "no such registry")
}

func TestCatalog_SearchAndPages(t *testing.T) {
	s := &shelf{name: "default"}
	for i := range 70 {
		s.put(fmt.Sprintf("io.example/server-%02d", i), `"description": "number `+fmt.Sprint(i)+`"`)
	}
	h := newHarness(t, Options{BaseURL: "https://tools.example/reg/"}, s)
	shows(t, h.get("/?q=number+42"), 200, "server-42", "Servers that match “number 42”")
	shows(t, h.get("/catalog/default?q=absent"), 200, "Nothing matches “absent”")
	shows(t, h.get("/catalog/default?cursor=other"), 400, "not that of a page")
	shows(t, h.get("/catalog/default?q="+strings.Repeat("a+", 17)), 400, "too much to search for")
	shows(t, h.get("/catalog/default?q="+strings.Repeat("a", 257)), 400, "too much to search for")

	seen, target := map[string]bool{}, "/catalog/default"
	for range 4 {
		page := body(t, h.get(target))
		for _, m := range regexp.MustCompile(`<h2><a href="([^"]+)"`).FindAllStringSubmatch(page, -1) {
			seen[m[1]] = true
		}
		next := regexp.MustCompile(`rel="next" href="/reg([^"]+)"`).FindStringSubmatch(page)
		if next == nil {
			target = ""
			break
		}
		target = next[1]
	}
	if len(seen) != 70 || target != "" || !seen["/reg/server/default/io.example/server-69"] {
		t.Errorf("%d servers; %v", len(seen), seen)
	}
}

func TestServerPage(t *testing.T) {
	s := &shelf{name: "default"}
	s.put("io.example/weather", weather)
	before := *s.put("io.example/weather", weather)
	before.IsLatest, before.Version.Version, before.Status, before.StatusMessage = false, "0.9.0", registry.Deprecated, "It guesses."
	s.servers[1] = before
	h := newHarness(t, Options{BaseURL: "https://tools.example/reg"}, s)
	page := h.get("/server/default/io.example/weather")
	shows(t, page, 200, "Weather", "Forecasts of everywhere", "1.0.0 latest", "0.9.0", "deprecated", "4 Mar 2026",
		"npx @example/weather", "version 1.0.0 · speaks stdio · thv runs this one",
		"Variable REGION required Where you are One of: eu us", "Variable API_KEY required secret Your key", "Variable UNITS Default: metric",
		"connections to api.weather.example, port 443", "forecast", "weather.example/about", "git.example/weather",
		"thv config set-registry https://tools.example/reg/registry/default",
		"thv run io.example/weather -e 'REGION=<eu|us>'", "thv asks for API_KEY without showing it")
	if got := text(t, page); strings.Contains(got, "thv registry login") || strings.Contains(got, "not the latest") {
		t.Error(got)
	}
	if !strings.Contains(body(t, page), `<a href="https://git.example/weather" rel="noreferrer nofollow noopener">`) {
		t.Error("the repository is not linked as it should be")
	}
	shows(t, h.get("/server/default/io.example/weather?version=0.9.0"), 200,
		"This version is deprecated. It guesses.", "not the latest version", "thv run io.example/weather@0.9.0 -e")
	shows(t, h.get("/server/default/io.example/weather?version=7"), 404, "no such version")
	shows(t, h.get("/server/default/io.example/absent"), 404, "no such server")
	shows(t, h.get("/server/other/io.example/weather"), 404, "no such registry")
	shows(t, h.get("/server/default/..%2f..%2fetc"), 404, "no such server")
	shows(t, h.get("/server/default/"), 404, "no such server")
}

func TestCommands_Host(t *testing.T) {
	s := &shelf{name: "default"}
	s.put("io.example/weather", weather)
	address := func(text string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text)) }
	for _, c := range []struct {
		configured string
		local      net.Addr
		want       string
	}{
		{"tools.example:8080", address("127.0.0.1:8081"), "http://tools.example:8080/registry/default"},
		{"", address("192.0.2.1:8080"), "http://192.0.2.1:8080/registry/default"},
		{"", address("[::1]:8080"), "'http://[::1]:8080/registry/default'"},
		{"", nil, "http://localhost/registry/default"},
	} {
		h := newHarness(t, Options{Host: c.configured}, s)
		r, _ := http.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, c.local), http.MethodGet, "/server/default/io.example/weather", nil)
		r.Host = "evil.example"
		w := newRecorder()
		h.site.ServeHTTP(w, r)
		page := w.Result()
		shows(t, page, 200, "thv config set-registry "+c.want)
		if strings.Contains(w.Body.String(), "evil.example") {
			t.Error("the page shows the request's Host")
		}
	}
}

func TestPages_HostileText(t *testing.T) {
	s := &shelf{name: "default"}
	evil := `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`
	q := func(v any) string { b, _ := json.Marshal(v); return string(b) }
	s.put("io.example/evil", `"title": `+q(evil)+`, "description": `+q(evil+"\u202etxt.exe\x1b[31m")+`,
	 "repository": {"url": "javascript:alert(1)"}, "websiteUrl": "data:text/html,<script>alert(1)</script>",
	 "packages": [{"registryType": `+q(evil)+`, "identifier": `+q(evil)+`, "version": `+q(evil)+`, "transport": {"type": `+q(evil)+`},
	   "environmentVariables": [{"name": `+q(evil)+`, "description": `+q(evil)+`, "default": `+q(evil)+`, "choices": [`+q(evil)+`], "isRequired": true}]},
	  {"registryType": "npm", "identifier": "a", "transport": {"type": "stdio"}, "environmentVariables": [
	   {"name": `+q(evil)+`, "isRequired": true}, {"name": "OK", "isRequired": true, "placeholder": `+q(evil)+`}]}],
	 "remotes": [{"type": "sse", "url": `+q("javascript:"+evil)+`, "headers": [{"name": `+q(evil)+`, "value": `+q(evil)+`}]}],
	 "icons": [{"src": "https://elsewhere.example/icon.png"}],
	 "_meta": {"io.modelcontextprotocol.registry/publisher-provided": {"dev.toolhaven": {"tags": [`+q(evil)+`], "tools": [`+q(evil)+`], "tier": `+q(evil)+`}}}`)
	s.servers[0].StatusMessage, s.servers[0].Status = evil, registry.Deprecated
	h := newHarness(t, Options{}, s)
	for _, target := range []string{"/", "/server/default/io.example/evil", "/?q=" + "%3Cscript%3Ealert(1)%3C/script%3E%22'%3E"} {
		page := body(t, h.get(target))
		if n := strings.Count(page, "<script"); n != 1 { // our own
			t.Errorf("%s: %d scripts:\n%s", target, n, page)
		}
		if strings.Contains(page, "<img src=x") || strings.ContainsAny(page, "\u202e\x1b") || strings.Contains(page, "elsewhere.example") {
			t.Errorf("%s:\n%s", target, page)
		}
		for _, m := range regexp.MustCompile(`(?:href|src|action)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if !strings.HasPrefix(m[1], "/") && m[1] != "#main" {
				t.Errorf("%s links to %s", target, m[1])
			}
		}
	}
}

func TestPages_UnreadableDocument(t *testing.T) {
	s := &shelf{name: "default"}
	s.put("io.example/odd", `"packages": "none"`)
	s.put("io.example/worse", "").Document = json.RawMessage(`{`)
	h := newHarness(t, Options{}, s)
	shows(t, h.get("/"), 200, "io.example/odd", "cannot be read")
	shows(t, h.get("/server/default/io.example/odd"), 200, "cannot be read", "Versions 1.0.0")
	shows(t, h.get("/server/default/io.example/worse"), 200, "cannot be read")
}

func TestPages_DatabaseUnavailable(t *testing.T) {
	s := &shelf{name: "default", err: fmt.Errorf("read: %w: password=hunter2", store.ErrUnavailable)}
	h := newHarness(t, Options{}, s)
	for _, target := range []string{"/", "/server/default/io.example/weather"} {
		page := h.get(target)
		shows(t, page, 503, "Not available now")
		if strings.Contains(body(t, page), "hunter2") {
			t.Error("the page repeats the error")
		}
	}
}

func TestPages_Headers(t *testing.T) {
	s := &shelf{name: "default"}
	s.put("io.example/weather", weather)
	anonymous, protected := newHarness(t, Options{BaseURL: "https://tools.example"}, s), newHarness(t, withLogin("https://tools.example"), s)
	style := anonymous.site.assets.url("style.css")
	for _, c := range []struct {
		h             *harness
		target, cache string
	}{
		{anonymous, "/", "private, no-cache"},
		{anonymous, "/server/default/io.example/weather", "private, no-cache"},
		{anonymous, "/server/default/absent", "private, no-cache"},
		{anonymous, "/catalog/absent", "private, no-cache"},
		{anonymous, style, "public, max-age=31536000, immutable"},
		{anonymous, "/assets/style.css", "no-store"},
		{protected, "/", "private, no-store"},
		{protected, "/login", "private, no-store"},
		{protected, "/login/callback?code=a&state=b", "private, no-store"},
		{protected, "/login/callback", "private, no-store"},
	} {
		header := c.h.get(c.target).Header
		for name, want := range map[string]string{
			"Content-Security-Policy":      "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options":       "nosniff",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control":                c.cache,
		} {
			if got := header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", c.target, name, got, want)
			}
		}
	}
}

// To what came over plain HTTP a browser applies no opener policy, and complains
// of one on its console.
func TestOpenerPolicy_TrustworthyOrigins(t *testing.T) {
	h := newHarness(t, Options{}, &shelf{name: "default"})
	for _, c := range []struct{ host, proto, want string }{
		{"tools.example", "", ""},
		{"tools.example:8080", "http", ""},
		{"192.0.2.1", "", ""},
		{"localhost.example", "", ""},
		{"tools.example", "https", "same-origin"},
		{"localhost:8080", "", "same-origin"},
		{"tools.localhost", "", "same-origin"},
		{"127.0.0.1:8080", "", "same-origin"},
		{"[::1]:8080", "", "same-origin"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = c.host
		r.Header.Set("X-Forwarded-Proto", c.proto)
		w := httptest.NewRecorder()
		h.site.ServeHTTP(w, r)
		if got := w.Header().Get("Cross-Origin-Opener-Policy"); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.host, c.proto, got, c.want)
		}
	}
}

func TestAssets_NamesContainHash(t *testing.T) {
	h := newHarness(t, Options{BaseURL: "https://tools.example/reg"}, &shelf{name: "default"})
	page := body(t, h.get("/"))
	for name, media := range map[string]string{"style.css": "text/css; charset=utf-8", "copy.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml; charset=utf-8"} {
		url := h.site.assets.url(name)
		if !strings.Contains(page, `"`+url+`"`) {
			t.Errorf("the page does not use %s", url)
		}
		resp := h.get(strings.TrimPrefix(url, "/reg"))
		file, err := os.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Header.Get("Content-Type") != media || body(t, resp) != string(file) {
			t.Errorf("%s: %s", url, resp.Header.Get("Content-Type"))
		}
	}
}

func TestRoutes_OtherPaths(t *testing.T) {
	for name, opt := range map[string]Options{"anonymous": {}, "oauth": withLogin("https://tools.example")} {
		h := newHarness(t, opt, &shelf{name: "default"})
		mux := http.NewServeMux()
		h.site.Register(mux)
		mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
		targets := []string{"GET /registry/default/v0.1/servers", "GET /openapi.json", "GET /favicon.ico", "POST /", "DELETE /server/default/a", "GET /logout", "GET /assets", "GET /login/other"}
		if name == "anonymous" {
			targets = append(targets, "GET /login", "GET /login/callback", "POST /logout")
		}
		for _, target := range targets {
			method, path, _ := strings.Cut(target, " ")
			r, _ := http.NewRequest(method, path, nil)
			w := newRecorder()
			mux.ServeHTTP(w, r)
			if w.Code != http.StatusTeapot {
				t.Errorf("%s: %s is answered with %d", name, target, w.Code)
			}
		}
	}
}

func TestNew_InvalidOptions(t *testing.T) {
	registries := newHarness(t, Options{}, &shelf{name: "default"}).site.opt.Registries
	for name, opt := range map[string]Options{
		"no registries":            {},
		"a URL with a query":       {Registries: registries, BaseURL: "https://tools.example/?a"},
		"another scheme":           {Registries: registries, BaseURL: "ftp://tools.example"},
		"a path that breaks rules": {Registries: registries, BaseURL: "https://tools.example/a;b"},
		"a login that is missing":  {Registries: registries, BaseURL: "https://tools.example", Login: &Login{}, LoginMissing: true},
		"a login without a key":    {Registries: registries, BaseURL: "https://tools.example", ResourceURL: "https://tools.example", Login: &Login{}},
	} {
		if _, err := New(opt); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	bad := withLogin("https://tools.example")
	bad.Registries = registries
	bad.Login.Issuer = "http://id.example"
	if _, err := New(bad); err == nil || !strings.Contains(err.Error(), "HTTPS") {
		t.Errorf("an issuer without HTTPS: %v", err)
	}
}

func TestLinkTo(t *testing.T) {
	for in, want := range map[string]string{
		"https://a.example/b/": "https://a.example/b/", "http://a.example": "http://a.example", "javascript:alert(1)": "", "JAVASCRIPT:alert(1)": "",
		"data:text/html,x": "", "//a.example": "", "/a": "", "https:a": "", "https://": "", "https://jo:pw@a.example": "", "file:///etc/passwd": "",
		"https://a.example/\u202e": "", "vbscript:x": "", "": "", " https://a.example ": "https://a.example", "java\nscript:alert(1)": "",
	} {
		got := ""
		if l := linkTo(in); l != nil {
			got = l.URL
		}
		if got != want {
			t.Errorf("linkTo(%q) is %q, want %q", in, got, want)
		}
	}
}
