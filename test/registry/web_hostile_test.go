//go:build integration

package registry

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// attacks are texts that would do something where they are not taken for text.
func attacks() map[string]string {
	return map[string]string{
		"script":     `<script>window.pwned = 1; alert("pwned")</script>`,
		"attribute":  `" autofocus onfocus="window.pwned=1;alert(1)" x="' onmouseover='alert(2)`,
		"image":      `<img src=x onerror="window.pwned=1;alert(1)"><svg onload=alert(1)>`,
		"closing":    `</title></textarea></style></code></pre></main><h1>Pwned</h1><iframe src="https://evil.example/"></iframe><base href="https://evil.example/">`,
		"template":   "{{.Login}} {{define \"content\"}} <%= 1 %> ${alert(1)} `${alert(1)}`",
		"entity":     `&lt;script&gt;alert(1)&lt;/script&gt; &#60;script&#62;alert(1)`,
		"direction":  "user\u202Etxt.exe\u202C \u2066\u2067\u2068abc\u2069 \u200Fx\u200E \u061C",
		"control":    "ab\u0007c\u001b]0;owned\u0007d\u001b[2Je\u0008f\r\ng\u0085h\u2028i\u2029j",
		"invisible":  "\u200B\u200C\u200D\uFEFF\u00AD\u3164\u115F\u2800",
		"marks":      "z" + strings.Repeat("\u0301\u0310\u035F\u0489", 100) + "algo",
		"long word":  strings.Repeat("W", 15_000),
		"long text":  strings.Repeat("many words ", 1_500),
		"jamo":       strings.Repeat("\u1100", 1000) + " " + strings.Repeat("\u0915\u094D", 1000),
		"emoji":      strings.Repeat("👩‍👩‍👧‍👦🏴‍☠️", 60),
		"arabic":     "مرحبا بالعالم — \u0645\u062B\u0627\u0644 (example) 123",
		"shell":      "$(touch pwned); `touch pwned` && touch pwned | touch pwned > pwned ' \" \\ !! # ~ * ? [a] {a,b}",
		"line end":   "x\ntouch pwned\n",
		"stylesheet": `</style><link rel=stylesheet href=https://evil.example/x.css><style>*{display:none}`,
	}
}

// hostileDocument is a document that says the attack wherever a document can say
// something.
func hostileDocument(name, attack string) map[string]any {
	input := func(more map[string]any) map[string]any {
		in := map[string]any{"description": attack, "isRequired": true, "choices": []string{attack, attack + "2"}, "placeholder": attack}
		for k, v := range more {
			in[k] = v
		}
		return in
	}
	return map[string]any{
		"name": name, "version": "1.0.0", "title": attack, "description": attack,
		"repository": map[string]any{"url": "javascript:alert(1)//" + attack, "source": attack},
		"websiteUrl": "https://example.com/" + attack,
		"packages": []any{map[string]any{
			"registryType": "npm", "identifier": attack, "version": attack, "transport": map[string]any{"type": "stdio"},
			"environmentVariables": []any{input(map[string]any{"name": attack}), input(map[string]any{"name": "FINE", "value": "{x}" + attack, "variables": map[string]any{"x": input(nil)}})},
			"packageArguments":     []any{input(map[string]any{"type": "named", "name": attack}), input(map[string]any{"type": "positional", "valueHint": attack}), map[string]any{"type": "positional", "value": attack}},
		}, map[string]any{"registryType": attack, "identifier": attack, "transport": map[string]any{"type": attack}}},
		"remotes": []any{map[string]any{"type": "streamable-http", "url": "javascript:alert(1)//" + attack, "headers": []any{input(map[string]any{"name": attack})}}},
		"_meta": map[string]any{"io.modelcontextprotocol.registry/publisher-provided": map[string]any{"dev.toolhaven": map[string]any{
			"tags": []string{attack, "<b>x</b>"}, "tools": []string{attack, attack + "2"}, "tier": attack,
			"permissions": map[string]any{"read": []string{attack}, "write": []string{"/x:" + attack}, "network": map[string]any{"mode": attack, "outbound": map[string]any{"allow_host": []string{attack}}}, "privileged": true},
		}}},
	}
}

// harmless fails the test if anything of a document became more than text.
func (b *tab) harmless() {
	b.Helper()
	for _, f := range evaluate[[]string](b, `(() => {
		const out = [];
		if (window.pwned) out.push("a script of a document ran");
		if (document.scripts.length !== 1 || !/\/assets\/copy\.[0-9a-f]+\.js$/.test(document.scripts[0].src)) out.push("scripts: " + document.scripts.length);
		for (const e of document.querySelectorAll("iframe, object, embed, base, style, svg, video, audio, [style], [srcdoc], [autofocus], link:not([rel=icon], [rel=stylesheet])")) out.push("an element: " + e.outerHTML.slice(0, 200));
		if (document.querySelectorAll("link").length !== 2 || document.images.length !== 1) out.push("links or images too many");
		for (const e of document.querySelectorAll("*")) for (const a of e.attributes) if (/^on/i.test(a.name)) out.push("an attribute: " + a.name);
		for (const e of document.querySelectorAll("a[href], form[action]")) {
			const u = new URL(e.href || e.action);
			if (!/^https?:$/.test(u.protocol) || u.origin !== location.origin && !/noopener/.test(e.rel) || u.host === "evil.example") out.push("a link: " + u);
		}
		if (/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff]/.test(document.documentElement.textContent.replace(/[\n\r\t]/g, ""))) out.push("a character that steers");
		if (document.documentElement.outerHTML.length > 400_000) out.push("a page of " + document.documentElement.outerHTML.length + " characters");
		for (const e of document.querySelectorAll("h1, h2 a")) if (!e.getBoundingClientRect().width) out.push("a title that nobody sees: " + e.outerHTML.slice(0, 200));
		return out;
	})()`) {
		b.Errorf("%s: %s", evaluate[string](b, `location.href`), f)
	}
}

func TestPage_HostileDocuments(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "registry.json")
	var docs []any
	var names []string
	for what, attack := range attacks() {
		name := "evil.example/" + strings.ReplaceAll(what, " ", "-")
		names = append(names, name)
		docs = append(docs, hostileDocument(name, attack))
	}
	content, err := json.Marshal(map[string]any{"version": "1.0.0", "meta": map[string]any{"last_updated": "2026-01-01T00:00:00Z"}, "data": map[string]any{"servers": docs}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(content))
	s := serve(t, anonymous+"sources:\n  - {name: f, file: {path: "+path+"}, interval: 1h}\n")
	t.Cleanup(func() {
		if t.Failed() {
			for line := range strings.SplitSeq(s.log.String(), "\n") {
				if !strings.Contains(line, `"level":"INFO"`) {
					t.Log(line)
				}
			}
		}
	})
	s.contract = nil // a source may contain what cannot be published
	eventually(t, "the registry has them all", func() error {
		if n := len(list(t, s, "?version=latest").Servers); n != len(names) {
			return fmt.Errorf("it has %d of %d", n, len(names))
		}
		return nil
	})
	window := chromium(t)
	for look, options := range map[string][]option{
		"desktop": nil, "phone": {phone}, "desktop, without the policy": {withoutPolicy}, "phone, without scripts": {phone, withoutScripts},
	} {
		t.Run(look, func(t *testing.T) {
			b := openTab(t, window, options...)
			sees := func(what string) {
				b.harmless()
				b.fits()
				b.isAccessible()
				b.photograph("hostile " + what + ", " + look)
			}
			b.visit(s.base + "/")
			b.reads(`<script>window.pwned = 1; alert("pwned")</script>`)
			sees("list")
			for _, name := range names {
				if status := b.visit(s.base + "/server/default/" + name); status != 200 {
					t.Errorf("%s: %d", name, status)
				}
				b.reads(name)
				sees(strings.TrimPrefix(name, "evil.example/"))
				if line := evaluate[string](b, `document.getElementById("run-line")?.textContent ?? ""`); line != "" {
					runsOnlyThv(t, line)
				}
			}
			b.visit(s.base + "/?q=" + "%3Cscript%3Ealert(1)%3C/script%3E%E2%80%AE")
			b.reads("Nothing matches “<script>alert(1)</script>”")
			sees("search")
			if diff := cmp.Diff([]string{strings.TrimPrefix(s.base, "http://")}, b.calls()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// runsOnlyThv pastes a line into a shell in which thv is nothing.
func runsOnlyThv(t *testing.T, line string) {
	t.Helper()
	dir := t.TempDir()
	shell := exec.Command("sh", "-c", "thv() { :; }\n"+line)
	shell.Dir = dir
	out, err := shell.CombinedOutput()
	made, _ := os.ReadDir(dir)
	if err != nil || len(out) > 0 || len(made) > 0 {
		t.Errorf("pasting %q: %v %s %v", line, err, out, made)
	}
}
