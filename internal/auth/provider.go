package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// provider is a Provider at work: its keys and its way to ask about tokens.
type provider struct {
	Provider
	client *http.Client
	keys   *keySet
	now    func() time.Time
	leeway time.Duration

	// asking bounds concurrent introspections, so that a slow provider cannot
	// pile up requests without end.
	asking chan struct{}

	mu         sync.Mutex
	discovered string // jwks_uri, once discovery has succeeded
}

// maxAsking is how many introspections of one provider run at once.
const maxAsking = 64

func newProvider(p Provider, client *http.Client, opt Options) *provider {
	pr := &provider{Provider: p, client: client, now: opt.Now, leeway: opt.Leeway, asking: make(chan struct{}, maxAsking)}
	pr.keys = &keySet{fetch: pr.fetchKeys, now: opt.Now, log: opt.Log.With(slog.String("provider", p.Name))}
	return pr
}

// accept verifies a JWT with the provider's keys. The error is a *refusal.
func (p *provider) accept(ctx context.Context, jws *jose.JSONWebSignature) (*Identity, error) {
	header := jws.Signatures[0].Protected
	keys, err := p.keys.find(ctx, header.KeyID, header.Algorithm)
	if err != nil {
		return nil, &refusal{reason: fmt.Sprintf("its keys cannot be had: %v", err), unavailable: true}
	}
	claims, err := verify(jws, keys)
	var r *refusal
	if errors.As(err, &r) && r.badSignature {
		// A provider may have replaced a key and kept its id.
		if p.keys.refetch(ctx) == nil {
			if again, _ := p.keys.lookup(header.KeyID, header.Algorithm); len(again) > 0 {
				claims, err = verify(jws, again)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	expires, err := checkClaims(claims, &p.Provider, p.now(), p.leeway, false)
	if err != nil {
		return nil, err
	}
	return p.identity(claims, expires), nil
}

func (p *provider) identity(claims map[string]any, expires time.Time) *Identity {
	subject, _ := claims["sub"].(string)
	return &Identity{Provider: p.Name, Issuer: p.IssuerURL, Subject: subject, Scopes: scopesOf(claims), Expires: expires, Claims: claims}
}

// introspect asks the provider about a token (RFC 7662 section 2). The error is
// a *refusal.
func (p *provider) introspect(ctx context.Context, token string) (*Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, httpTimeout)
	defer cancel()
	select {
	case p.asking <- struct{}{}:
		defer func() { <-p.asking }()
	case <-ctx.Done():
		return nil, &refusal{reason: "too many tokens are being checked at " + p.IntrospectionURL, unavailable: true}
	}
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.IntrospectionURL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, refuse("introspection: %v", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if err := p.authenticate(req); err != nil {
		return nil, &refusal{reason: err.Error(), unavailable: true}
	}
	body, err := p.do(req)
	if err != nil {
		return nil, &refusal{reason: err.Error(), unavailable: true}
	}
	claims, err := decodeClaims(body)
	if err != nil {
		return nil, &refusal{reason: p.IntrospectionURL + " did not answer with a JSON object", unavailable: true}
	}
	if active, _ := claims["active"].(bool); !active {
		return nil, refuse("the provider says that it is not active")
	}
	expires, err := checkClaims(claims, &p.Provider, p.now(), 0, true)
	if err != nil {
		return nil, err
	}
	return p.identity(claims, expires), nil
}

// authenticate puts our credential for the introspection endpoint on req.
// Client credentials (RFC 6749 section 2.3.1) go before the token file.
func (p *provider) authenticate(req *http.Request) error {
	if p.ClientID == "" {
		return p.bearer(req)
	}
	secret := ""
	if p.ClientSecretFile != "" {
		var err error
		if secret, err = readSecret(p.ClientSecretFile); err != nil {
			return err
		}
	}
	req.SetBasicAuth(url.QueryEscape(p.ClientID), url.QueryEscape(secret))
	return nil
}

// bearer puts the token of AuthTokenFile on req, if req goes to an origin that
// the configuration names.
func (p *provider) bearer(req *http.Request) error {
	if p.AuthTokenFile == "" || !p.configured(req.URL) {
		return nil
	}
	token, err := readSecret(p.AuthTokenFile)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return nil
}

func (p *provider) configured(u *url.URL) bool {
	for _, raw := range []string{p.IssuerURL, p.JWKSURL, p.IntrospectionURL} {
		if c, err := url.Parse(raw); err == nil && raw != "" && c.Scheme == u.Scheme && c.Host == u.Host {
			return true
		}
	}
	return false
}

// readSecret reads a file anew each time: Kubernetes replaces mounted tokens and
// secrets by swapping a symbolic link.
func readSecret(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read credential: %w", err)
	}
	s := strings.TrimSpace(string(b))
	if s == "" || strings.ContainsAny(s, "\r\n") {
		return "", fmt.Errorf("the credential file %s is empty or has more than one line", path)
	}
	return s, nil
}

// fetchKeys gets the provider's key set, by discovery if need be.
func (p *provider) fetchKeys(ctx context.Context) ([]jose.JSONWebKey, error) {
	from := p.JWKSURL
	if from == "" {
		var err error
		if from, err = p.discover(ctx); err != nil {
			return nil, err
		}
	}
	body, err := p.get(ctx, from)
	if err != nil {
		return nil, err
	}
	keys, err := decodeKeys(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return keys, nil
}

// discover reads jwks_uri from the issuer's metadata, which must be the
// metadata of that issuer (OpenID Connect Discovery 1.0 section 4.3).
func (p *provider) discover(ctx context.Context) (string, error) {
	p.mu.Lock()
	known := p.discovered
	p.mu.Unlock()
	if known != "" {
		return known, nil
	}
	from := discoveryURL(p.IssuerURL)
	body, err := p.get(ctx, from)
	if err != nil {
		return "", err
	}
	var doc struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return "", fmt.Errorf("%s: it is not a JSON object", from)
	}
	if doc.Issuer != p.IssuerURL {
		return "", fmt.Errorf("%s: it is the metadata of issuer %q, not of %q", from, shorten(doc.Issuer), p.IssuerURL)
	}
	if err := checkEndpoint(doc.JWKSURI); err != nil {
		return "", fmt.Errorf("%s: jwks_uri: %w", from, err)
	}
	p.mu.Lock()
	p.discovered = doc.JWKSURI
	p.mu.Unlock()
	return doc.JWKSURI, nil
}

func (p *provider) get(ctx context.Context, from string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	if err := p.bearer(req); err != nil {
		return nil, err
	}
	return p.do(req)
}

// do sends req and reads a bounded JSON answer. Errors name the URL and carry
// nothing of the answer's body.
func (p *provider) do(req *http.Request) ([]byte, error) {
	req.Header.Set("Accept", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err // a *url.Error: it names method and URL
	}
	defer resp.Body.Close()
	target := req.Method + " " + req.URL.String()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: answered %s", target, resp.Status)
	}
	if mt, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); mt == "text/html" {
		return nil, fmt.Errorf("%s: answered a web page", target)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", target, err)
	}
	if len(body) > maxResponse {
		return nil, fmt.Errorf("%s: the answer is larger than %d bytes", target, maxResponse)
	}
	return body, nil
}
