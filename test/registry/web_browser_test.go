//go:build integration

package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// insecureHost is a name that leads to this machine, and that the browser takes
// for one on a network: it gives such pages less than those of 127.0.0.1.
const insecureHost = "registry.test"

// browserProcess is a Chromium at work.
type browserProcess struct{ ctx context.Context }

// chromium starts the browser that test/setup/chromium.sh installs.
func chromium(t *testing.T) browserProcess {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		// As root, and in a container, Chromium has no sandbox. It sees only what
		// these tests serve.
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-dev-shm-usage", true),
		// Nothing is reached but this machine.
		chromedp.Flag("host-resolver-rules", "MAP "+insecureHost+" 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.WSURLReadTimeout(patience))
	allocator, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	// The protocol grows with the browser: what this client does not know yet is
	// no fault of the page.
	quiet := func(string, ...any) {}
	ctx, _ := chromedp.NewContext(allocator, chromedp.WithErrorf(quiet), chromedp.WithLogf(quiet))
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // closes it as a person does, so that nothing stays behind
		cancel()
	})
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("Chromium does not start: %v; test/setup/chromium.sh installs it", err)
	}
	return browserProcess{ctx}
}

// tab is a page of a browser that knows nothing of other tabs: it has its own
// cookies. What the browser complains about while it is open fails the test.
type tab struct {
	*testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string
	status     int64 // of the last page
	hosts      map[string]bool
	expected   []string // parts of complaints that a test provokes
}

type option func(*tab)

// expecting are parts of complaints that belong to what the test does.
func expecting(parts ...string) option {
	return func(b *tab) { b.expected = append(b.expected, parts...) }
}

// phone is a telephone held upright.
func phone(b *tab) {
	b.do(emulation.SetDeviceMetricsOverride(390, 844, 2, true), emulation.SetTouchEmulationEnabled(true))
}

// dark prefers dark pages.
func dark(b *tab) {
	b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
}

// withoutScripts has JavaScript turned off.
func withoutScripts(b *tab) { b.do(emulation.SetScriptExecutionDisabled(true)) }

// withoutPolicy ignores the content security policy, so that what gets past the
// templates would run.
func withoutPolicy(b *tab) { b.do(page.SetBypassCSP(true)) }

func openTab(t *testing.T, browser browserProcess, options ...option) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser.ctx, chromedp.WithNewBrowserContext())
	b := &tab{T: t, ctx: ctx, hosts: map[string]bool{}}
	chromedp.ListenTarget(ctx, b.listen)
	// The first run makes the tab, which must not end with a step.
	if err := chromedp.Run(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			b.photograph("failed " + t.Name())
		}
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range b.complaints {
			if !slices.ContainsFunc(b.expected, func(part string) bool { return strings.Contains(c, part) }) {
				t.Errorf("the browser complains: %s", c)
			}
		}
	})
	b.do(audits.Enable(), network.Enable(), log.Enable(), emulation.SetDeviceMetricsOverride(1280, 900, 1, false))
	for _, o := range options {
		o(b)
	}
	return b
}

// listen collects the errors and warnings of a browser about a page.
func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		b.complaints = append(b.complaints, fmt.Sprintf("log, %s: %s (%s)", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *runtime.EventConsoleAPICalled:
		b.complaints = append(b.complaints, fmt.Sprintf("console.%s is called", e.Type))
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, "exception: "+e.ExceptionDetails.Error())
	case *audits.EventIssueAdded:
		detail, _ := json.Marshal(e.Issue.Details)
		b.complaints = append(b.complaints, fmt.Sprintf("issue %s: %s", e.Issue.Code, detail))
	case *page.EventJavascriptDialogOpening:
		b.complaints = append(b.complaints, "a dialog opens: "+e.Message)
		// It must be answered, or the page stands still; not from here, though.
		go func() { _ = chromedp.Run(b.ctx, page.HandleJavaScriptDialog(true)) }()
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Scheme != "data" && u.Scheme != "chrome-error" {
			b.hosts[u.Host] = true
		}
	case *network.EventResponseReceived:
		if e.Type == network.ResourceTypeDocument {
			b.status = e.Response.Status
		}
	}
}

// do takes some steps, and fails the test if they cannot be taken in time.
func (b *tab) do(actions ...chromedp.Action) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.Fatalf("%v; at %s", err, b.where())
	}
}

// where is the page the browser is at, for messages.
func (b *tab) where() string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	var at, text string
	if err := chromedp.Run(ctx, chromedp.Location(&at), chromedp.Evaluate(`document.body ? document.body.innerText : ""`, &text)); err != nil {
		return err.Error()
	}
	return at + "\n" + text
}

// visit goes to an address, whatever is answered there, and returns the status.
func (b *tab) visit(address string) int64 {
	b.Helper()
	b.do(chromedp.Navigate(address))
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// follow clicks what is at selector and waits for the page after it.
func (b *tab) follow(selector string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, chromedp.Click(selector, chromedp.ByQuery)); err != nil {
		b.Fatalf("follow %s: %v; at %s", selector, err, b.where())
	}
}

// evaluate evaluates an expression in the page.
func evaluate[T any](b *tab, script string) T {
	b.Helper()
	var out T
	b.do(chromedp.Evaluate(script, &out))
	return out
}

// text is what a person can read.
func (b *tab) text() string {
	b.Helper()
	return strings.Join(strings.Fields(evaluate[string](b, `document.body.innerText`)), " ")
}

// reads fails the test unless the page contains all texts.
func (b *tab) reads(words ...string) {
	b.Helper()
	text := b.text()
	missing := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.Contains(text, w) })
	if len(missing) > 0 {
		b.Errorf("the page does not say %q:\n%s", missing, text)
	}
}

func (b *tab) readsNothingOf(words ...string) {
	b.Helper()
	text := b.text()
	for _, w := range words {
		if strings.Contains(text, w) {
			b.Errorf("the page says %q:\n%s", w, text)
		}
	}
}

// at fails the test unless the browser is at an address.
func (b *tab) at(want string) {
	b.Helper()
	if got := evaluate[string](b, `location.href`); got != want {
		b.Errorf("the browser is at %s, not at %s", got, want)
	}
}

// photograph keeps a picture of the page, if THV_SHOTS names a folder for them.
func (b *tab) photograph(name string) {
	folder := os.Getenv("THV_SHOTS")
	if folder == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	var picture []byte
	if err := chromedp.Run(ctx, chromedp.FullScreenshot(&picture, 100)); err != nil {
		b.Logf("no picture: %v", err)
		return
	}
	if err := os.WriteFile(filepath.Join(folder, strings.NewReplacer("/", "-", " ", "-").Replace(name)+".png"), picture, 0o600); err != nil {
		b.Error(err)
	}
}

// fits fails the test if anything is wider than the window, or cut off.
func (b *tab) fits() {
	b.Helper()
	wide := evaluate[[]string](b, `(() => {
		const width = document.documentElement.clientWidth;
		const out = [];
		if (document.documentElement.scrollWidth > width || document.body.scrollWidth > width) out.push("the page: " + document.documentElement.scrollWidth + " of " + width);
		for (const e of document.querySelectorAll("body *")) {
			const box = e.getBoundingClientRect();
			// Letters that no browser parts: it is enough that they are cut off.
			if (/\u1100{20}/.test(e.textContent)) continue;
			if (box.width && !e.classList.contains("skip") && (box.right > width + 1 || box.left < -1)) out.push(e.tagName + "." + e.className + ": " + box.left + " to " + box.right);
		}
		// Text may stick out of an element that does not.
		const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		for (let n = texts.nextNode(); n; n = texts.nextNode()) {
			if (!n.data.trim() || /\u1100{20}/.test(n.data) || n.parentElement.closest(".skip, .unseen, .who")) continue;
			const range = document.createRange();
			range.selectNodeContents(n);
			for (const r of range.getClientRects()) if (r.right > width + 1 || r.left < -1) out.push("text: " + n.data.slice(0, 80) + ": " + r.left + " to " + r.right);
		}
		// The button that copies lies beside the command, not over it.
		for (const frame of document.querySelectorAll(".copyable:has(button)")) {
			const button = frame.querySelector("button").getBoundingClientRect();
			const text = document.createRange();
			text.selectNodeContents(frame.querySelector("code"));
			for (const r of text.getClientRects())
				if (r.right > button.left && r.left < button.right && r.bottom > button.top && r.top < button.bottom) out.push("a button over " + frame.textContent);
		}
		return out.slice(0, 5);
	})()`)
	if len(wide) > 0 {
		b.Errorf("%s is wider than the window: %v", evaluate[string](b, `location.href`), wide)
	}
}

// faint are texts with less contrast than WCAG 2.2, 1.4.3 requires for AA.
const faint = `(() => {
	const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
	const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; if (c[3] !== 0) return null; } return null; };
	const out = [];
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n = texts.nextNode(); n; n = texts.nextNode()) {
		if (!n.data.trim()) continue;
		const behind = ground(n.parentElement);
		if (!behind) { out.push("no plain ground behind: " + n.data); continue; }
		const [a, b] = [light(parse(getComputedStyle(n.parentElement).color)), light(behind)].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < 4.5) out.push(ratio.toFixed(2) + ": " + n.data);
	}
	return out;
})()`

// isAccessible fails the test on what a program can see of a page that not
// everybody can use.
func (b *tab) isAccessible() {
	b.Helper()
	for _, f := range evaluate[[]string](b, faint) {
		b.Errorf("too little contrast: %s", f)
	}
	for _, f := range evaluate[[]string](b, `(() => {
		const out = [];
		const one = (selector) => { const n = document.querySelectorAll(selector).length; if (n !== 1) out.push(n + " of " + selector); };
		one("main"); one("h1"); one("header"); one("html[lang]"); one("title");
		let level = 0;
		for (const h of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
			const l = Number(h.tagName[1]);
			if (l > level + 1) out.push("a heading is skipped before: " + h.textContent);
			level = l;
		}
		for (const e of document.querySelectorAll("input, select, textarea")) if (!e.labels.length) out.push("no label: " + e.name);
		for (const e of document.querySelectorAll("a, button")) if (!e.textContent.trim()) out.push("no name: " + e.outerHTML);
		for (const e of document.querySelectorAll("img:not([alt])")) out.push("no alt: " + e.outerHTML);
		const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
		for (const id of ids.filter((id, i) => ids.indexOf(id) !== i)) out.push("twice: #" + id);
		for (const e of document.querySelectorAll("[aria-labelledby]")) if (!document.getElementById(e.getAttribute("aria-labelledby"))) out.push("no such label: " + e.outerHTML);
		return out;
	})()`) {
		b.Error(f)
	}
}

// shifts is how far the page moved while it was loaded (Layout Instability API).
func (b *tab) shifts() float64 {
	b.Helper()
	total := 0.0
	b.do(chromedp.Evaluate(`new Promise((resolve) => {
		let total = 0;
		new PerformanceObserver((list) => { for (const e of list.getEntries()) total += e.value; }).observe({type: "layout-shift", buffered: true});
		setTimeout(() => resolve(total), 200);
	})`, &total, awaited))
	return math.Round(total*1000) / 1000
}

// calls are the hosts that the browser sent requests to.
func (b *tab) calls() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]string, 0, len(b.hosts))
	for h := range b.hosts {
		out = append(out, h)
	}
	slices.Sort(out)
	return out
}

// awaited waits for what a promise comes to.
func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// withBrowser speaks to the browser, not to the tab.
func withBrowser(ctx context.Context) context.Context {
	return cdp.WithExecutor(ctx, chromedp.FromContext(ctx).Browser)
}
