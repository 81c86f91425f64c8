//go:build integration

package scenario

import (
	"context"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/rogpeppe/go-internal/testscript"
)

// browse opens an address in Chromium, as a link of another site: it signs a person in at the
// identity provider, allows access on the page of thv's authorization server, and waits until
// the client's address is open, which is the value of VAR then.
//
//	browse VAR ADDRESS PERSON CLIENT
func browse(ts *testscript.TestScript, _ bool, args []string) {
	allow := `button[name=decision][value=allow]`
	at := inChromium(ts, args[1], args[2], args[3], chromedp.WaitVisible(allow), chromedp.Click(allow))
	ts.Setenv(args[0], at)
}

// logInWithChromium opens an address that thv shows, and signs a person in at the identity
// provider. The browser ends at the page of the waiting thv.
func logInWithChromium(ts *testscript.TestScript, address, person string) {
	authorize, err := url.Parse(address)
	ts.Check(err)
	inChromium(ts, address, person, authorize.Query().Get("redirect_uri")+"?")
}

// inChromium opens an address in Chromium, signs a person in at the identity provider, does
// what follows there, and waits until the browser is at an address with the prefix end.
func inChromium(ts *testscript.TestScript, address, person, end string, then ...chromedp.Action) (at string) {
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
	bounded, stop := context.WithTimeout(browser, time.Minute)
	defer stop()
	var page string
	actions := []chromedp.Action{
		chromedp.Navigate(address),
		chromedp.WaitVisible(`input[name=login]`), chromedp.SendKeys(`input[name=login]`, person), chromedp.SendKeys(`input[name=password]`, "x"), chromedp.Click(`button[type=submit]`),
		chromedp.WaitVisible(`button[autofocus]`), chromedp.Click(`button[type=submit]`),
	}
	actions = append(append(actions, then...), chromedp.ActionFunc(func(ctx context.Context) error {
		for !strings.HasPrefix(at, end) { // the page changes meanwhile, so it cannot wait itself
			if err := chromedp.Location(&at).Do(ctx); err != nil && ctx.Err() != nil {
				return err
			}
		}
		return nil
	}))
	err := chromedp.Run(bounded, actions...)
	if err != nil {
		again, stop := context.WithTimeout(browser, 5*time.Second)
		defer stop()
		_ = chromedp.Run(again, chromedp.Location(&at), chromedp.Text(`body`, &page))
		ts.Fatalf("%v at %s: %s", err, at, page)
	}
	return at
}
