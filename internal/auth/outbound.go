package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"unicode"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// guardedClient is the HTTP client of a provider unless Options.Client is set. It
// trusts the provider's authorities, and connects to public addresses; to private ones
// with AllowPrivateIP; to this machine with AllowPrivateIP or where a URL names it.
func guardedClient(p Provider) (*http.Client, error) {
	opt := netguard.Options{AllowPrivate: p.AllowPrivateIP, AllowLoopback: p.AllowPrivateIP, AllowHTTP: p.AllowHTTP, Timeout: requestTimeout}
	if p.CACertPath != "" {
		opt.CAFiles = []string{p.CACertPath}
	}
	for _, raw := range p.urls() {
		if u, err := url.Parse(raw); err == nil && netguard.CheckEndpoint("http://"+u.Host) == nil {
			opt.AllowLoopback = true
		}
	}
	return netguard.Client(opt)
}

// urls are the configured URLs.
func (p *Provider) urls() []string {
	var urls []string
	for _, raw := range []string{p.IssuerURL, p.JWKSURL, p.IntrospectionURL} {
		if raw != "" {
			urls = append(urls, raw)
		}
	}
	return urls
}

// outbound sends a provider's requests. It rebuilds its client when the file of
// authorities changes: Kubernetes replaces mounted files by swapping a symbolic link.
type outbound struct {
	provider *Provider
	build    func(Provider) (*http.Client, error)
	log      *slog.Logger

	mu      sync.Mutex
	client  *http.Client
	file    os.FileInfo // of CACertPath when it was last read
	content []byte
}

func newOutbound(p *Provider, build func(Provider) (*http.Client, error), log *slog.Logger) (*outbound, error) {
	o := &outbound{provider: p, build: build, log: log}
	if p.CACertPath != "" {
		var err error
		// Read before the client is built: a change in between is detected later.
		if o.file, o.content, err = readFile(p.CACertPath); err != nil {
			return nil, fmt.Errorf("caCertPath: %w", err)
		}
	}
	client, err := build(*p)
	if err != nil {
		return nil, err
	}
	o.client = noRedirects(client)
	return o, nil
}

// noRedirects disables redirects, which could send a credential to another server.
func noRedirects(client *http.Client) *http.Client {
	c := *client
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

// current returns the client for the next request. If a changed file of authorities
// is invalid, the old client stays, and the file is read again for the next request.
func (o *outbound) current() *http.Client {
	o.mu.Lock()
	defer o.mu.Unlock()
	path := o.provider.CACertPath
	if path == "" {
		return o.client
	}
	if now, err := os.Stat(path); err == nil && os.SameFile(now, o.file) && now.ModTime().Equal(o.file.ModTime()) && now.Size() == o.file.Size() {
		return o.client
	}
	if err := o.reload(path); err != nil {
		o.log.Warn("the certificate authorities changed and cannot be used; the former ones stay", slog.Any("error", err))
	}
	return o.client
}

func (o *outbound) reload(path string) error {
	file, content, err := readFile(path)
	if err != nil {
		return err
	}
	if bytes.Equal(content, o.content) {
		o.file = file
		return nil
	}
	client, err := o.build(*o.provider)
	if err != nil {
		return err
	}
	o.client.CloseIdleConnections() // made with the former authorities
	o.client, o.file, o.content = noRedirects(client), file, content
	o.log.Info("the certificate authorities were read again", slog.String("file", path))
	return nil
}

func (o *outbound) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.client.CloseIdleConnections()
}

// readFile reads a file of bounded size, and returns its os.FileInfo.
func readFile(path string) (os.FileInfo, []byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	content, err := netguard.ReadBounded(f, maxResponse)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return info, content, nil
}

// readSecret reads a credential that is sent in a header: one line.
func readSecret(path string) (string, error) {
	secret, err := netguard.ReadSecret(path)
	if err != nil {
		return "", fmt.Errorf("read credential: %w", err)
	}
	if strings.ContainsFunc(secret, unicode.IsControl) {
		return "", fmt.Errorf("read credential: %s has more than one line", path)
	}
	return secret, nil
}

// bearer adds the token of AuthTokenFile to req, if its origin is that of a configured
// URL.
func (o *outbound) bearer(req *http.Request) error {
	if o.provider.AuthTokenFile == "" || !o.provider.names(req.URL) {
		return nil
	}
	token, err := readSecret(o.provider.AuthTokenFile)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return nil
}

// names reports whether u has the origin of a configured URL.
func (p *Provider) names(u *url.URL) bool {
	for _, raw := range p.urls() {
		if c, err := url.Parse(raw); err == nil && netguard.Origin(c) == netguard.Origin(u) {
			return true
		}
	}
	return false
}

// get fetches a JSON document.
func (o *outbound) get(ctx context.Context, from string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	if err := o.bearer(req); err != nil {
		return nil, err
	}
	return o.do(req)
}

// do sends req and reads a bounded JSON response. Errors name the URL and do not quote
// the response.
func (o *outbound) do(req *http.Request) ([]byte, error) {
	target := req.Method + " " + req.URL.String()
	req.Header.Set("Accept", "application/json")
	resp, err := o.current().Do(req)
	if netguard.Late(err) {
		return nil, late(target)
	}
	if err != nil {
		return nil, err // a *url.Error: it names method and URL
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return nil, fmt.Errorf("%s: answered %d, a redirect, which is not followed", target, resp.StatusCode)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: answered %d %s", target, resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	if mt, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); mt == "text/html" {
		return nil, fmt.Errorf("%s: answered a web page", target)
	}
	body, err := netguard.ReadBounded(resp.Body, maxResponse)
	if errors.Is(err, netguard.ErrTooLarge) {
		return nil, fmt.Errorf("%s: the answer is larger than %d bytes", target, maxResponse)
	}
	if netguard.Late(err) {
		return nil, late(target)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", target, err)
	}
	return body, nil
}

// late is the error of a request that timed out. The text of net/http depends on which
// timer fires first, the context's or the client's.
func late(target string) error {
	return fmt.Errorf("%s: no whole answer in time: %w", target, context.DeadlineExceeded)
}
