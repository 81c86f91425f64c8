//go:build integration

package registry

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"
)

// weather is a server that needs about everything a server can need.
const weather = `{"name": "io.example/weather", "version": "VERSION", "title": "Weather", "description": "Forecasts and warnings for every place on Earth, hour by hour",
 "repository": {"url": "https://git.example.com/weather/server", "source": "github"}, "websiteUrl": "https://weather.example.com/about",
 "packages": [{"registryType": "npm", "identifier": "@example/weather", "version": "VERSION", "transport": {"type": "stdio"},
  "packageArguments": [
   {"type": "named", "name": "--home", "description": "Where you live", "isRequired": true, "valueHint": "city"},
   {"type": "positional", "value": "serve"}],
  "environmentVariables": [
   {"name": "REGION", "description": "Which service answers", "isRequired": true, "choices": ["eu", "us"]},
   {"name": "API_KEY", "description": "The key of your account", "isRequired": true, "isSecret": true},
   {"name": "UNITS", "description": "How temperatures are written", "default": "metric"}]}],
 "remotes": [{"type": "streamable-http", "url": "https://mcp.weather.example.com/", "headers": [{"name": "Authorization", "isRequired": true, "isSecret": true}]}],
 "_meta": {"io.modelcontextprotocol.registry/publisher-provided": {"dev.toolhaven": {"tags": ["climate", "travel"], "tools": ["forecast", "warnings"], "tier": "Official",
  "permissions": {"read": ["/places"], "network": {"outbound": {"allow_host": ["api.weather.example.com"], "allow_port": [443]}}}}}}}`

// stock publishes weather in three versions, the first of them deprecated and the
// second deleted; a server that is deprecated and one that is deleted; and
// enough others for three pages.
func stock(t *testing.T, s *instance) {
	t.Helper()
	for _, version := range []string{"0.8.0", "0.9.0", "1.0.0"} {
		mustDo(t, s.do("POST", publish, strings.ReplaceAll(weather, "VERSION", version)), http.StatusOK)
	}
	for _, name := range []string{"io.example/sunset", "io.example/gone"} {
		doc := server(name, "1.0.0")
		doc["description"] = "When the day ends"
		mustDo(t, s.do("POST", publish, doc), http.StatusOK)
	}
	mustDo(t, s.do("PATCH", at("io.example/weather", "/versions/0.8.0/status"), `{"status":"deprecated","statusMessage":"It guesses; take 1.0.0."}`), http.StatusOK)
	mustDo(t, s.do("PATCH", at("io.example/weather", "/versions/0.9.0/status"), `{"status":"deleted"}`), http.StatusOK)
	mustDo(t, s.do("PATCH", at("io.example/sunset", "/status"), `{"status":"deprecated","statusMessage":"The sun has set."}`), http.StatusOK)
	mustDo(t, s.do("PATCH", at("io.example/gone", "/status"), `{"status":"deleted"}`), http.StatusOK)
	subjects := []string{"Tickets", "Calendar", "Payments", "Search", "Mail", "Files", "Metrics"}
	for i := range 70 {
		doc := server(fmt.Sprintf("com.acme/%s-%02d", strings.ToLower(subjects[i%7]), i), "2.1.0")
		doc["title"] = fmt.Sprintf("%s %d", subjects[i%7], i)
		doc["description"] = fmt.Sprintf("%s of team %d, for agents and for the people they work for", subjects[i%7], i)
		doc["_meta"] = map[string]any{"io.modelcontextprotocol.registry/publisher-provided": map[string]any{"dev.toolhaven": map[string]any{"tags": []string{"office", "team-" + fmt.Sprint(i)}}}}
		if i%3 == 0 {
			doc["packages"] = []any{map[string]any{"registryType": "oci", "identifier": fmt.Sprintf("ghcr.io/acme/mcp-%02d:2.1.0", i), "transport": map[string]any{"type": "stdio"}}}
			delete(doc, "remotes")
		}
		mustDo(t, s.do("POST", publish, doc), http.StatusOK)
	}
}

// cards are the titles on a page of the list.
func (b *tab) cards() []string {
	b.Helper()
	return evaluate[[]string](b, `[...document.querySelectorAll(".cards h2 a")].map((e) => e.textContent)`)
}

// search types words into the field and presses Enter.
func (b *tab) search(words string) {
	b.Helper()
	b.do(chromedp.Focus("#q", chromedp.ByQuery), chromedp.Evaluate(`document.getElementById("q").select()`, nil))
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, chromedp.SendKeys("#q", words+kb.Enter, chromedp.ByQuery)); err != nil {
		b.Fatalf("search for %s: %v; at %s", words, err, b.where())
	}
}

// looks are the ways in which a person may look at the page.
func looks() map[string][]option {
	return map[string][]option{
		"desktop": nil, "desktop, dark, without scripts": {dark, withoutScripts},
		"phone, dark": {phone, dark}, "phone, without scripts": {phone, withoutScripts},
	}
}

func TestPage_Browse(t *testing.T) {
	t.Parallel()
	s := serve(t, anonymous)
	window := chromium(t)
	t.Run("an empty registry says so", func(t *testing.T) {
		b := openTab(t, window, phone)
		b.visit(s.base + "/")
		b.reads("There is no server in this registry yet")
		b.fits()
		b.isAccessible()
		b.photograph("empty, phone")
	})
	stock(t, s)
	for name, options := range looks() {
		t.Run(name, func(t *testing.T) { browse(openTab(t, window, options...), s.base, name) })
	}
}

// browse is a visit as a person makes it.
func browse(b *tab, base, look string) {
	sees := func(what string) {
		b.Helper()
		b.fits()
		b.isAccessible()
		if !strings.Contains(look, "without scripts") { // measuring is a script
			if moved := b.shifts(); moved > 0.05 { // 0.1 is a good page (web.dev, Cumulative Layout Shift)
				b.Errorf("%s moves by %v while it loads", what, moved)
			}
		}
		b.photograph(what + ", " + look)
	}
	b.visit(base + "/")
	b.reads("Tool servers", "Calendar 1", "com.acme/calendar-01", "office", "2.1.0", "remote", "container")
	b.readsNothingOf("io.example/gone")
	sees("list")

	// All pages, by the button.
	var seen []string
	for range 5 {
		seen = append(seen, b.cards()...)
		if !evaluate[bool](b, `!!document.querySelector("a[rel=next]")`) {
			break
		}
		b.follow("a[rel=next]")
	}
	sees("last page")
	unique := map[string]bool{}
	for _, title := range seen {
		unique[title] = true
	}
	if len(seen) != 72 || len(unique) != 72 {
		b.Errorf("%d servers on the pages, %d different ones", len(seen), len(unique))
	}
	b.follow(".pager a")
	b.at(base + "/catalog/default")

	b.search("absent-minded")
	b.reads("Nothing matches “absent-minded”")
	sees("nothing found")
	b.search("hour FORECASTS")
	b.reads("Servers that match “hour FORECASTS”")
	if diff := cmp.Diff([]string{"Weather"}, b.cards()); diff != "" {
		b.Error(diff)
	}
	if got := evaluate[string](b, `document.getElementById("q").value`); got != "hour FORECASTS" {
		b.Errorf("the field has forgotten the words: %q", got)
	}
	sees("found")
	b.search("office")
	b.follow("a[rel=next]")
	b.reads("Servers that match “office”")
	b.search("sunset")
	b.reads("deprecated")
	b.follow(".cards h2 a")
	b.reads("This version is deprecated.", "The sun has set.")
	sees("deprecated server")

	b.visit(base + "/catalog/default?q=weather")
	b.follow(".cards h2 a")
	b.at(base + "/server/default/io.example/weather")
	b.reads("Weather", "io.example/weather", "Forecasts and warnings", "climate", "1.0.0",
		"Variable REGION required", "Which service answers", "One of: eu us", "Variable API_KEY required secret", "Default: metric",
		"Argument --home required", "Where you live", "Header Authorization required secret",
		"Network: connections to api.weather.example.com, port 443.", "Reads folders of yours: /places.",
		"git.example.com/weather/server", "weather.example.com/about", "forecast", "warnings", "0.8.0",
		"thv config set-registry "+base+"/registry/default", "thv asks for API_KEY without showing it")
	b.readsNothingOf("0.9.0", "thv registry login")
	const line = `thv run io.example/weather -e 'REGION=<eu|us>' -v '<folder>:/places:ro' -- --home '<city>' serve`
	if got := evaluate[string](b, `document.getElementById("run-line").textContent`); got != line {
		b.Errorf("the line is %s", got)
	}
	sees("server")

	b.follow(`a[href$="version=0.8.0"]`)
	b.reads("This version is deprecated.", "It guesses; take 1.0.0.", "This is not the latest version.", "thv run io.example/weather@0.8.0")
	sees("older version")
	b.follow(".notice a")
	b.at(base + "/server/default/io.example/weather")
	b.follow(".crumbs a")
	b.at(base + "/catalog/default")
	for _, c := range b.calls() {
		if c != strings.TrimPrefix(base, "http://") {
			b.Errorf("the page asked %s for something", c)
		}
	}
}

func TestPage_NotFound(t *testing.T) {
	t.Parallel()
	s := serve(t, anonymous)
	stock(t, s)
	b := openTab(t, chromium(t), phone, expecting("404", "400"))
	tests := map[string]struct {
		status int64
		words  string
	}{
		"/catalog/other":                                 {404, "There is no such registry"},
		"/server/default/io.example/gone":                {404, "There is no such server"},
		"/server/default/io.example/never":               {404, "There is no such server"},
		"/server/default/io.example/weather?version=7":   {404, "no such version"},
		"/server/default/%3Cscript%3Ealert(1)":           {404, "There is no such server"},
		"/catalog/default?cursor=x":                      {400, "This address is not that of a page of the list."},
		"/catalog/default?q=" + strings.Repeat("a+", 99): {400, "a few words are enough"},
	}
	for path, test := range tests {
		t.Run(path, func(t *testing.T) {
			if got := b.visit(s.base + path); got != test.status {
				t.Errorf("%d, not %d", got, test.status)
			}
			b.reads(test.words)
			b.fits()
			b.isAccessible()
			b.photograph("missing " + test.words)
		})
	}
	b.visit(s.base + "/server/default/io.example/never")
	b.follow("main a")
	b.reads("Calendar 1")
}

// clipboard is what a person would paste.
func (b *tab) clipboard(origin string) string {
	b.Helper()
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		c := chromedp.FromContext(ctx)
		return browser.GrantPermissions([]browser.PermissionType{browser.PermissionTypeClipboardReadWrite}).WithOrigin(origin).
			WithBrowserContextID(c.BrowserContextID).Do(withBrowser(ctx))
	}))
	var text string
	b.do(chromedp.Evaluate(`navigator.clipboard.readText()`, &text, awaited))
	return text
}

func TestPage_CopyButton(t *testing.T) {
	t.Parallel()
	s := serve(t, anonymous+"allowedHosts: ["+insecureHost+"]\n")
	stock(t, s)
	window := chromium(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.base, "http://"), ":")
	for name, base := range map[string]string{"on a secure address": s.base, "over plain HTTP": "http://" + insecureHost + ":" + port} {
		t.Run(name, func(t *testing.T) {
			b := openTab(t, window)
			b.visit(base + "/server/default/io.example/weather")
			line := evaluate[string](b, `document.getElementById("run-line").textContent`)
			b.do(chromedp.Click(`.copyable:has(#run-line) button`, chromedp.ByQuery),
				chromedp.Poll(`document.querySelector(".copyable:has(#run-line) button").textContent === "Copied"`, nil))
			b.photograph("copied " + name)
			b.do(chromedp.Poll(`document.querySelector(".copyable:has(#run-line) button").textContent === "Copy"`, nil))
			b.visit(s.base + "/") // reading the clipboard needs a secure address
			if got := b.clipboard(s.base); got != line {
				t.Errorf("copied %q of %q", got, line)
			}
		})
	}
}

func TestPage_Keyboard(t *testing.T) {
	t.Parallel()
	s := serve(t, anonymous)
	stock(t, s)
	b := openTab(t, chromium(t))
	b.visit(s.base + "/server/default/io.example/weather")
	// Tab visits everything once and each stop can be seen.
	var stops []string
	for range 60 {
		b.do(chromedp.KeyEvent(kb.Tab))
		stop := evaluate[struct {
			Name    string
			Visible bool
		}](b, `(() => {
			const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
			const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
			return {name: e === document.body ? "" : e.textContent.trim() || e.name, visible: ring && box.width > 0 && box.left >= 0 && box.top >= 0 && box.bottom <= innerHeight + 1};
		})()`)
		if stop.Name == "" {
			break
		}
		stops = append(stops, stop.Name)
		if !stop.Visible {
			t.Errorf("nobody sees that %q has the focus", stop.Name)
		}
		if len(stops) == 1 {
			b.photograph("skip link")
		}
	}
	want := []string{"To the content", "Toolhaven registry", "default", "git.example.com/weather/server", "weather.example.com/about", "Copy", "Copy", "1.0.0", "0.8.0"}
	if diff := cmp.Diff(want, stops); diff != "" {
		t.Errorf("Tab stops elsewhere:\n%s", diff)
	}
	b.visit(s.base + "/")
	b.do(chromedp.Focus("#q", chromedp.ByQuery))
	b.photograph("focus in the search")
}
