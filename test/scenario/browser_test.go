//go:build integration

package scenario

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/rogpeppe/go-internal/testscript"
)

// browse opens an address in Chromium, as a link of another site: a person signs in at each
// identity provider that is offered, allows access on the page of thv's authorization server,
// and waits until the client's address is open, which is the value of VAR then. The file pages
// has the texts of the authorization server's pages. When its page offers accounts a second
// time, the person goes on without.
//
//	browse VAR ADDRESS PERSON[,PERSON...] CLIENT
//
// Each identity provider gets the next PERSON. The variable THV_TEST_PICTURES names a folder
// that gets pictures of the pages.
func browse(ts *testscript.TestScript, _ bool, args []string) {
	p := inChromium(ts, args[1], args[2], args[3], os.Getenv("THV_TEST_PICTURES"))
	ts.Setenv(args[0], p.at)
	ts.Check(os.WriteFile(ts.MkAbs("pages"), []byte(strings.Join(p.pages, "\n")), 0o600))
}

// logInWithChromium opens an address that thv shows, and signs a person in at the identity
// provider. The browser ends at the page of the waiting thv.
func logInWithChromium(ts *testscript.TestScript, address, person string) {
	authorize, err := url.Parse(address)
	ts.Check(err)
	inChromium(ts, address, person, authorize.Query().Get("redirect_uri")+"?", "")
}

// inChromium opens an address in Chromium, and answers the pages that follow until the browser
// is at an address with the prefix end.
func inChromium(ts *testscript.TestScript, address, persons, end, pictures string) *visitor {
	const chromium = "/usr/bin/chromium"
	if _, err := os.Stat(chromium); err != nil {
		ts.Fatalf("%v; test/setup/chromium.sh installs it", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU,
		// Only this machine is reached: the provider's page requests a font of Google's.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"), chromedp.WSURLReadTimeout(time.Minute))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	// The library does not know every value of this Chromium.
	browser, stop := chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {}))
	defer stop()
	ts.Check(chromedp.Run(browser)) // it lives as long as the context of its first run
	bounded, stop := context.WithTimeout(browser, 2*time.Minute)
	defer stop()
	p := &visitor{persons: strings.Split(persons, ","), pictures: pictures}
	if p.pictures != "" {
		page, _, _ := strings.Cut(address, "?")
		ts.Check(chromedp.Run(bounded, chromedp.Navigate(page+"?client_id=unknown")))
		ts.Check(p.picture(bounded, "error"))
	}
	err := chromedp.Run(bounded, chromedp.Navigate(address))
	for err == nil && !strings.HasPrefix(p.at, end) {
		err = p.step(bounded)
	}
	if err != nil {
		ts.Fatalf("%v at %s: %s", err, p.at, p.text)
	}
	return p
}

// visitor is a person before a browser.
type visitor struct {
	persons  []string
	pictures string
	offered  int // pages that offered accounts

	at, text string   // the page
	pages    []string // the texts of those of the authorization server
}

// forms are the pages, by what only they have.
const forms = `(() => {
	const has = (selector) => document.querySelector(selector) !== null;
	if (document.readyState !== "complete") return "";
	if (has("input[name=password]")) return "login";
	if (has("button[autofocus]") && has("input[name=prompt]")) return "grant";
	if (has("button[name=provider]")) return "accounts";
	if (has("button[name=decision]")) return "consent";
	return "";
})()`

// step does what the present page is for.
func (p *visitor) step(ctx context.Context) error {
	var form string
	// Between two pages there is none, or one that is replaced while it is evaluated.
	err := chromedp.Run(ctx, chromedp.Location(&p.at), chromedp.Evaluate(forms, &form), chromedp.Text("body", &p.text, chromedp.AtLeast(0)))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil || form == "" {
		return chromedp.Run(ctx, chromedp.Sleep(20*time.Millisecond))
	}
	before := p.at
	switch form {
	case "login":
		if len(p.persons) == 0 {
			return errors.New("an identity provider more than there are persons")
		}
		err = chromedp.Run(ctx, chromedp.SendKeys("input[name=login]", p.persons[0]), chromedp.SendKeys("input[name=password]", "x"), chromedp.Click("button[type=submit]"))
		p.persons = p.persons[1:]
	case "grant":
		err = chromedp.Run(ctx, chromedp.Click("button[type=submit]"))
	case "accounts":
		p.offered++
		picture, choice := form, "button.go[name=provider]"
		if p.offered > 1 {
			picture, choice = "another-person", `button[name=provider][value=""]`
		}
		err = p.answer(ctx, picture, choice)
	case "consent":
		err = p.answer(ctx, form, "button[name=decision][value=allow]")
	}
	if err != nil {
		return err
	}
	return p.leave(ctx, before)
}

// answer chooses a button of the authorization server's page.
func (p *visitor) answer(ctx context.Context, picture, button string) error {
	p.pages = append(p.pages, p.text)
	if p.pictures != "" {
		if err := p.picture(ctx, picture); err != nil {
			return err
		}
	}
	return chromedp.Run(ctx, chromedp.Click(button))
}

// leave waits until the browser is at another page.
func (p *visitor) leave(ctx context.Context, before string) error {
	for p.at == before {
		if err := chromedp.Run(ctx, chromedp.Location(&p.at)); err != nil && ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// picture writes pictures of a page: on a desktop, and on a phone in the dark.
func (p *visitor) picture(ctx context.Context, name string) error {
	for _, look := range []struct {
		suffix        string
		width, height int64
		scheme        string
	}{{"", 800, 700, "light"}, {"-dark", 390, 800, "dark"}} {
		var png []byte
		err := chromedp.Run(ctx,
			chromedp.EmulateViewport(look.width, look.height),
			emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}}),
			chromedp.CaptureScreenshot(&png))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(p.pictures, name+look.suffix+".png"), png, 0o644); err != nil {
			return err
		}
	}
	return nil
}
