//go:build integration

package registry

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/toolhaven/toolhaven/test/idp"
	"github.com/toolhaven/toolhaven/test/local"
)

// protected is a registry behind a login, at an address known before it starts,
// since the identity provider must know where people come back to.
type protected struct {
	*instance
	*idp.Provider
	home   string // the page's address
	writer string // a token that may publish
}

// protect starts a registry and its provider. With a path, it is behind a proxy
// that takes the path off; more is added to the configuration.
func protect(t *testing.T, path, more string, options idp.Options) *protected {
	t.Helper()
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	home := "http://" + address
	if path != "" {
		home = behind(t, address, path)
	}
	options.WebRedirects = []string{home + "/login/callback"}
	p := idp.Start(t, options)
	s := &instance{t: t, config: filepath.Join(t.TempDir(), "registry.yaml")}
	write(t, s.config, fmt.Sprintf(`
auth:
  oauth:
    resourceUrl: %[1]s
    providers:
      - {name: corp, issuerUrl: %[2]s, audience: %[1]s}
web:
  login: {provider: corp, clientId: %[3]s, clientSecretFile: %[4]s, scopes: [openid, "mcp-registry:read"]}
%[5]s`, home, p.Issuer, idp.WebClient, secretFile(t, idp.WebSecret), more))
	s.start(address, "127.0.0.1:0")
	eventually(t, "the server is ready", func() error {
		resp, err := http.Get(s.internal + "/readiness")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", resp.Status)
		}
		return nil
	})
	return &protected{instance: s, Provider: p, home: home, writer: p.Token(t, home, "mcp-registry:read", "mcp-registry:write")}
}

// behind is the address of a proxy that serves an address below a path.
func behind(t *testing.T, address, path string) string {
	t.Helper()
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: address})
		r.SetXForwarded()
	}}
	front := httptest.NewServer(http.StripPrefix(path, proxy))
	t.Cleanup(front.Close)
	return front.URL + path
}

// arrives waits until the browser is at a page that begins so: logging in goes
// over several.
func (b *tab) arrives(address string) {
	b.Helper()
	eventually(b, "the browser is at "+address, func() error {
		var at, state string
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		defer cancel()
		if err := chromedp.Run(ctx, chromedp.Location(&at), chromedp.Evaluate(`document.readyState`, &state)); err != nil {
			return err
		}
		if !strings.HasPrefix(at, address) || state != "complete" {
			return fmt.Errorf("it is at %s, %s", at, state)
		}
		return nil
	})
}

// signIn fills in the provider's pages: who one is, and that the registry may know.
func (b *tab) signIn(p *idp.Provider, who string) {
	b.Helper()
	b.arrives(p.Issuer + "/interaction/")
	b.do(chromedp.SendKeys(`input[name=login]`, who, chromedp.ByQuery), chromedp.SendKeys(`input[name=password]`, "any", chromedp.ByQuery))
	b.follow(`button[type=submit]`)
	b.arrives(p.Issuer + "/interaction/")
	b.do(chromedp.WaitVisible(`input[name=prompt][value=consent] ~ button, form:has(input[name=prompt][value=consent])`, chromedp.ByQuery))
	b.follow(`button[type=submit]`)
}

// ofTheProvider expects complaints about the provider's own pages.
func ofTheProvider(b *tab) { expecting("fonts.googleapis.com", "/interaction/", "/favicon.ico")(b) }

func TestPage_SignIn(t *testing.T) {
	t.Parallel()
	s := protect(t, "", "", idp.Options{})
	stock(t, s.as(t, s.writer))
	const asked = "/server/default/io.example/weather?version=0.8.0"
	for look, options := range map[string][]option{"desktop": nil, "phone, dark": {phone, dark}, "phone, without scripts": {phone, withoutScripts}} {
		t.Run(look, func(t *testing.T) {
			b := openTab(t, chromium(t), append(slices.Clone(options), ofTheProvider, expecting("status of 401"))...)
			sees := func(what string) {
				t.Helper()
				b.fits()
				b.isAccessible()
				b.photograph(what + ", " + look)
			}
			if status := b.visit(s.home + asked); status != http.StatusUnauthorized {
				t.Errorf("%d", status)
			}
			b.reads("Sign in", "This catalog of tool servers is for people who have signed in.", "thv registry login")
			b.readsNothingOf("Weather", "Sign out")
			sees("sign in")
			b.follow("#sign-in")
			b.signIn(s.Provider, "jane@example.com")
			b.arrives(s.home + "/server")
			b.at(s.home + asked)
			b.reads("jane@example.com", "Sign out", "It guesses; take 1.0.0.", "thv registry login", "thv config set-registry "+s.home+"/registry/default")
			sees("signed in")

			var cookies []*network.Cookie
			b.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
				cookies, err = network.GetCookies().WithURLs([]string{s.home}).Do(ctx)
				return err
			}))
			// Those of the provider are on the same host, for tests.
			cookies = slices.DeleteFunc(cookies, func(c *network.Cookie) bool { return !strings.HasPrefix(c.Name, "thv-") })
			if len(cookies) != 1 || cookies[0].Name != "thv-session" || !cookies[0].HTTPOnly || cookies[0].SameSite != network.CookieSameSiteLax {
				t.Fatalf("the cookies are %+v", cookies)
			}
			if strings.Contains(s.log.String(), cookies[0].Value) {
				t.Error("the cookie is in the log")
			}

			// The API takes tokens, and only tokens: a browser that has signed in can
			// be made to do nothing there.
			if status := b.visit(s.home + servers); status != http.StatusUnauthorized {
				t.Errorf("the API takes the page's cookie: %d", status)
			}
			mustDo(t, s.as(t, s.writer).do("GET", servers, nil), http.StatusOK)

			b.visit(s.home + "/")
			b.reads("Calendar 1")
			b.search("sunset")
			b.reads("When the day ends", "jane@example.com")
			b.follow(".who button")
			b.at(s.home + "/")
			b.reads("Sign in")
			b.do(chromedp.NavigateBack())
			b.readsNothingOf("When the day ends")
			sees("signed out")
		})
	}
}

func TestPage_SessionExpires(t *testing.T) {
	t.Parallel()
	s := protect(t, "", "", idp.Options{TokenLifetime: 20 * time.Second})
	b := openTab(t, chromium(t), ofTheProvider, expecting("status of 401"))
	const asked = "/catalog/default?q=weather"
	b.visit(s.home + asked)
	b.follow("#sign-in")
	b.signIn(s.Provider, "jane")
	b.arrives(s.home + "/catalog")
	b.reads("Nothing matches “weather”", "jane")
	eventually(t, "the session ends with the token", func() error {
		if status := b.visit(s.home + asked); status != http.StatusUnauthorized {
			return fmt.Errorf("%d", status)
		}
		return nil
	})
	b.follow("#sign-in") // the provider's session continues
	b.arrives(s.home + "/catalog")
	b.at(s.home + asked)
	b.reads("Nothing matches “weather”", "jane")
}

func TestPage_LoginCancelled(t *testing.T) {
	t.Parallel()
	s := protect(t, "", "", idp.Options{})
	b := openTab(t, chromium(t), phone, ofTheProvider, expecting("status of 401", "status of 400"))
	const asked = "/catalog/default?q=weather"
	b.visit(s.home + asked)
	b.follow("#sign-in")
	b.arrives(s.Issuer + "/interaction/")
	b.follow(`a[href$="/abort"]`)
	b.arrives(s.home + "/login/callback")
	b.at(s.home + "/login/callback")
	b.reads("Signing in did not work", "You cancelled", "access_denied")
	b.fits()
	b.isAccessible()
	b.photograph("cancelled, phone")
	b.follow("#sign-in")
	b.signIn(s.Provider, "jane")
	b.arrives(s.home + "/catalog")
	b.at(s.home + asked)
}

func TestPage_ProviderDown(t *testing.T) {
	t.Parallel()
	s := protect(t, "", "", idp.Options{})
	api := s.as(t, s.writer)
	mustDo(t, api.do("GET", servers, nil), http.StatusOK)
	window := chromium(t)
	const asked = "/catalog/default?q=weather"
	for what, down := range map[string][2]func(){
		"gone":   {s.Stop, func() { s.Restart(t) }},
		"silent": {func() { s.Suspend(t) }, func() { s.Resume(t) }},
	} {
		t.Run(what, func(t *testing.T) {
			b := openTab(t, window, phone, ofTheProvider, expecting("status of 401", "status of 502"))
			b.visit(s.home + asked)
			down[0]()
			b.follow("#sign-in")
			b.reads("Signing in is not possible now")
			b.fits()
			b.isAccessible()
			b.photograph("provider " + what + ", phone")
			mustDo(t, api.do("GET", servers, nil), http.StatusOK) // its keys are known
			down[1]()
			eventually(t, "the provider is asked again", func() error {
				b.follow("main a.button")
				if at := evaluate[string](b, `location.href`); !strings.HasPrefix(at, s.Issuer) {
					return fmt.Errorf("the browser is at %s", at)
				}
				return nil
			})
			b.signIn(s.Provider, "jane")
			b.arrives(s.home + "/catalog")
			b.at(s.home + asked)
			b.follow(".who button")
			// The metadata is cached for a while; a new server fetches it.
			s.again()
		})
	}
}

// again starts the program anew at the same address.
func (s *protected) again() {
	s.t.Helper()
	address := strings.TrimPrefix(s.base, "http://")
	s.stop()
	s.start(address, "127.0.0.1:0")
}

func TestPage_PathAndTwoRegistries(t *testing.T) {
	t.Parallel()
	s := protect(t, "/tools/mcp", `
sources:
  - {name: default, managed: {}}
  - {name: secret, managed: {}}
  - {name: team, managed: {}}
registries:
  - {name: default, sources: [default]}
  - {name: secret, sources: [secret]}
  - {name: team, sources: [team]}
authz:
  rules:
    - {actions: [read, write], scopes: ["mcp-registry:write"]}
    - {registries: [default, team]}
`, idp.Options{})
	stock(t, s.as(t, s.writer))
	b := openTab(t, chromium(t), phone, ofTheProvider, expecting("status of 401", "status of 404"))
	b.visit(s.home + "/")
	b.follow("#sign-in")
	b.signIn(s.Provider, "jane")
	b.arrives(s.home + "/")
	b.reads("Registries", "default", "team")
	b.readsNothingOf("secret")
	b.fits()
	b.isAccessible()
	b.photograph("registries, phone")
	b.follow(`a[href="/tools/mcp/catalog/default"]`)
	b.search("hour")
	b.follow(".cards h2 a")
	b.at(s.home + "/server/default/io.example/weather")
	b.reads("thv config set-registry " + s.home + "/registry/default")
	if status := b.visit(s.home + "/catalog/secret"); status != http.StatusNotFound {
		t.Errorf("a registry that one may not read answers %d", status)
	}
	b.reads("There is no such registry")
	b.follow(".who button")
	b.at(s.home + "/")
	b.reads("Sign in")
}

func TestPage_LoginMissing(t *testing.T) {
	t.Parallel()
	p := idp.Start(t, idp.Options{})
	s := serve(t, strings.ReplaceAll(oauthConfig(t, "", p), resource, "https://registry.example.com"))
	b := openTab(t, chromium(t), phone, expecting("status of 401"))
	if status := b.visit(s.base + "/"); status != http.StatusUnauthorized {
		t.Errorf("%d", status)
	}
	b.reads("Signing in here is not set up", "thv registry login", "web.login")
	b.fits()
	b.isAccessible()
	b.photograph("login missing, phone")
}
