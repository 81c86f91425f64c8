package auth

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/toolhaven/toolhaven/test/idp"
)

// swapMount replaces the files of a directory as Kubernetes does: the names are
// links through ..data, which is replaced as a whole.
func swapMount(t testing.TB, dir string, content map[string]string) {
	t.Helper()
	next, err := os.MkdirTemp(dir, "..gen")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range content {
		if err := os.WriteFile(filepath.Join(next, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		// The link is made once and stays.
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Base(next), filepath.Join(dir, "..tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

// gzipBomb is a little that becomes 32 times what an answer may be. Making it may take
// longer than a request on a busy machine, so it is made once, before.
var gzipBomb = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	zeros := make([]byte, maxResponse)
	for range 32 {
		_, _ = z.Write(zeros)
	}
	_ = z.Close()
	return b.Bytes()
})

// writeBomb writes it.
func writeBomb(w io.Writer) { _, _ = w.Write(gzipBomb()) }

// Key set endpoints that are out of order, or worse.
func TestKeySet_HostileEndpoints(t *testing.T) {
	gzipBomb()
	p, elsewhere := newIssuer(t), newIssuer(t)
	s := newSigner(t, jose.ES256, "k1")
	p.publish(s)
	elsewhere.publish(s)
	good := p.routes[jwksPath]
	for _, c := range []struct {
		rule, name string
		answer     http.HandlerFunc
		want       string
	}{
		{"RFC 9110 15.4", "a redirect to another host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+jwksPath, http.StatusFound)
		}, "redirect"},
		{"RFC 9110 15.4", "a redirect to itself", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, jwksPath+"?again", http.StatusFound)
		}, "redirect"},
		{"RFC 7517 5", "a web page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>")
		}, "web page"},
		{"RFC 7517 5", "a web page that calls itself JSON", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "<html>")
		}, "not a JSON object"},
		{"RFC 9110 15", "404 with a key set", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(404)
			good(w, r)
		}, "404"},
		{"bounds", "an answer without end", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, `{"keys":[`)
			for r.Context().Err() == nil {
				if _, err := fmt.Fprint(w, strings.Repeat(`{},`, 10_000)); err != nil {
					return
				}
			}
		}, "larger than"},
		{"bounds", "a gzip bomb", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			writeBomb(w)
		}, "larger than"},
		{"bounds", "a header without end", func(w http.ResponseWriter, r *http.Request) {
			for i := range 100 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 10_000))
			}
			good(w, r)
		}, "header"},
		{"RFC 9110 8.4.1", "something that is no gzip", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			good(w, r)
		}, "gzip"},
	} {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			p.serve(jwksPath, c.answer)
			v := newValidator(t, p.provider("main"))
			_, err := v.Validate(t.Context(), s.sign(t, "", p.claims(nil)))
			why := reasons(err)
			if err == nil || !strings.Contains(why, c.want) || !strings.Contains(why, p.URL+jwksPath) {
				t.Errorf("got %s", why)
			}
		})
	}
	if elsewhere.fetches.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

// The fetch of a key set that is sent byte by byte is canceled, and meanwhile no token
// waits longer than keysWait.
func TestKeySet_SlowResponse(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for keysWait")
	}
	p := newIssuer(t)
	s := newSigner(t, jose.ES256, "k1")
	p.serve(jwksPath, func(w http.ResponseWriter, r *http.Request) {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for r.Context().Err() == nil {
			<-tick.C
			fmt.Fprint(w, " ")
			w.(http.Flusher).Flush()
		}
	})
	v := newValidator(t, p.provider("main"))
	// The words are those of the wait: the request itself is given up later, with
	// others.
	if _, err := v.Validate(t.Context(), s.sign(t, "", p.claims(nil))); err == nil || !strings.Contains(reasons(err), errKeysSlow.Error()) {
		t.Error(reasons(err))
	}
}

func TestAuthTokenFile_Origins(t *testing.T) {
	p, elsewhere := newIssuer(t), newIssuer(t)
	s := newSigner(t, jose.ES256, "k1")
	p.publish(s)
	elsewhere.publish(s)
	dir := t.TempDir()
	swapMount(t, dir, map[string]string{"token": "first\n"})
	// Discovery leads to another origin: its keys are used, and it gets nothing.
	p.says(discoveryPath, `{"issuer":"`+p.URL+`","jwks_uri":"`+elsewhere.URL+jwksPath+`"}`)
	provider := p.provider("a")
	provider.AuthTokenFile = filepath.Join(dir, "token")
	v := newValidator(t, provider)
	if _, err := v.Validate(t.Context(), s.sign(t, "", p.claims(nil))); err != nil {
		t.Fatal(reasons(err))
	}
	if got := elsewhere.credential(jwksPath); got != "" || elsewhere.fetches.Load() == 0 {
		t.Errorf("another origin was sent %q", got)
	}
	// A redirect does not carry it anywhere, not even for a client that follows
	// redirects.
	p.serve(jwksPath, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+jwksPath, http.StatusFound)
	})
	provider.JWKSURL = p.URL + jwksPath
	fetched := elsewhere.fetches.Load()
	v = newValidatorWith(t, Options{Client: func(Provider) (*http.Client, error) { return client(t), nil }}, provider)
	if _, err := v.Validate(t.Context(), s.sign(t, "", p.claims(nil))); err == nil || elsewhere.fetches.Load() != fetched {
		t.Errorf("a redirect was followed: %s", reasons(err))
	}
	v.Close() // or it would ask again, with what the file says then
	// To its own origin it goes, and the file is read anew for each fetch.
	p.serve(jwksPath, func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: p.published()})
	})
	v = newValidator(t, provider)
	if _, err := v.Validate(t.Context(), s.sign(t, "", p.claims(nil))); err != nil { // the first fetch is over
		t.Fatal(reasons(err))
	}
	for i, word := range []string{"second", "third"} {
		swapMount(t, dir, map[string]string{"token": word})
		stranger := *s
		stranger.kid = word // unknown: causes a fetch
		v.Validate(t.Context(), stranger.sign(t, "", p.claims(nil)))
		if got := p.credential(jwksPath); got != "Bearer "+word {
			t.Errorf("%d: sent %q, want the content %q", i, got, word)
		}
	}
}

func TestProvider_Names(t *testing.T) {
	p := Provider{IssuerURL: "https://Issuer.example/a", JWKSURL: "https://keys.example:8443/jwks"}
	for raw, want := range map[string]bool{
		"https://issuer.example/b":             true,
		"https://issuer.example:443/":          true,
		"https://keys.example:8443/x":          true,
		"https://keys.example/jwks":            false,
		"http://issuer.example/":               false,
		"https://issuer.example:8443/":         false,
		"https://evil.example/issuer.example":  false,
		"https://issuer.example.evil.example/": false,
	} {
		req := httptest.NewRequest("GET", raw, nil)
		if got := p.names(req.URL); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

// A provider behind a private authority, which is replaced while we run.
func TestCACertPath_Reload(t *testing.T) {
	first, second := idp.NewAuthority(t), idp.NewAuthority(t)
	p := newIssuer(t)
	s := newSigner(t, jose.ES256, "k1")
	p.publish(s)
	server := httptest.NewUnstartedServer(p)
	server.Config.ErrorLog = discardLog()
	certificates := make(chan *tls.Certificate, 1)
	use := func(a *idp.Authority) {
		cert, key := a.Certificate(t, "127.0.0.1")
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-certificates:
		default:
		}
		certificates <- &pair
	}
	use(first)
	server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := <-certificates
		certificates <- c
		return &tls.Config{Certificates: []tls.Certificate{*c}}, nil
	}}
	server.StartTLS()
	defer server.Close()
	dir := t.TempDir()
	swapMount(t, dir, map[string]string{"ca.crt": string(first.PEM)})
	provider := Provider{Name: "main", IssuerURL: server.URL, Audience: "registry", JWKSURL: server.URL + jwksPath,
		IntrospectionURL: server.URL + introspectPath, CACertPath: filepath.Join(dir, "ca.crt")}
	p.activate("opaque", map[string]any{"active": true, "aud": "registry"})
	var log testLog
	c := &clock{}
	v := newValidatorWith(t, Options{Log: log.logger(), Now: c.now}, provider)
	ask := func() error {
		c.advance(cacheFor) // so that the provider is asked
		server.CloseClientConnections()
		_, err := v.Validate(t.Context(), "opaque")
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(reasons(err))
	}
	use(second)
	if err := ask(); err == nil || !strings.Contains(reasons(err), "certificate") {
		t.Errorf("a certificate of an unknown authority was accepted: %s", reasons(err))
	}
	// Half-written: the former authorities stay.
	swapMount(t, dir, map[string]string{"ca.crt": "-----BEGIN"})
	if err := ask(); err == nil || !strings.Contains(log.String(), "the former ones stay") {
		t.Errorf("%s; log %s", reasons(err), log.String())
	}
	swapMount(t, dir, map[string]string{"ca.crt": string(second.PEM)})
	if err := ask(); err != nil {
		t.Errorf("after the swap: %s", reasons(err))
	}
	// Overwritten in place, and with other times only. A file of the same size that
	// is written twice within a tick of the kernel's clock has one time.
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), first.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, "ca.crt"), time.Now(), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	use(first)
	if err := ask(); err != nil {
		t.Errorf("after it was overwritten: %s", reasons(err))
	}
	if err := os.Chtimes(filepath.Join(dir, "ca.crt"), time.Now(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	built := strings.Count(log.String(), "read again")
	if err := ask(); err != nil || strings.Count(log.String(), "read again") != built {
		t.Errorf("the same authorities again: %s", reasons(err))
	}
	// A file that is gone changes nothing.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err != nil {
		t.Errorf("without the file: %s", reasons(err))
	}
}

func TestCACertPath_Missing(t *testing.T) {
	_, err := NewValidator([]Provider{{Name: "a", IssuerURL: "https://issuer.example", Audience: "x", CACertPath: "/nowhere/ca.crt"}}, Options{})
	if err == nil || !strings.Contains(err.Error(), "caCertPath") {
		t.Errorf("got %v", err)
	}
}

// Private addresses are refused unless the provider may have one: decided on the
// address that a name leads to.
func TestAllowPrivateIP(t *testing.T) {
	for name, c := range map[string]struct {
		provider Provider
		url      string
		refused  bool
	}{
		"a private address":           {Provider{IssuerURL: "https://issuer.example"}, "https://10.255.255.1/jwks", true},
		"the cloud's metadata":        {Provider{IssuerURL: "https://issuer.example"}, "https://169.254.169.254/jwks", true},
		"this machine":                {Provider{IssuerURL: "https://issuer.example"}, "https://127.0.0.1:1/jwks", true},
		"this machine, by HTTP":       {Provider{IssuerURL: "https://issuer.example"}, "http://127.0.0.1:1/jwks", true},
		"this machine, as configured": {Provider{IssuerURL: "http://localhost:1"}, "http://127.0.0.1:1/jwks", false},
		"this machine, when allowed":  {Provider{IssuerURL: "https://issuer.example", AllowPrivateIP: true}, "https://127.0.0.1:1/jwks", false},
	} {
		client, err := guardedClient(c.provider)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		req, _ := http.NewRequestWithContext(ctx, "GET", c.url, nil)
		_, err = client.Do(req)
		cancel()
		refused := err != nil && (strings.Contains(err.Error(), "not a public one") || strings.Contains(err.Error(), "only HTTPS"))
		if err == nil || refused != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The text of net/http depends on the timer and on how much was received; the log has
// one text.
func TestOutbound_TimeoutText(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begins" {
			_, _ = io.WriteString(w, "{")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	for _, path := range []string{"/says-nothing", "/begins"} {
		for timer, bound := range map[string]struct{ client, context time.Duration }{
			"the client's":  {50 * time.Millisecond, time.Hour},
			"the context's": {time.Hour, 50 * time.Millisecond},
		} {
			t.Run(path+"/"+timer, func(t *testing.T) {
				out, err := newOutbound(&Provider{}, func(Provider) (*http.Client, error) { return &http.Client{Timeout: bound.client}, nil }, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), bound.context)
				defer cancel()
				_, err = out.get(ctx, server.URL+path)
				if want := "GET " + server.URL + path + ": no whole answer in time: context deadline exceeded"; err == nil || err.Error() != want {
					t.Errorf("%v, want %q", err, want)
				}
			})
		}
	}
}
