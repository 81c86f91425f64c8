package oauthclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"
)

// ErrSignIn: the user must sign in.
var ErrSignIn = errors.New("a sign-in is needed")

// leeway is how long before its expiry a token counts as expired, so that it does not
// expire on its way.
const leeway = 10 * time.Second

// Source returns the access token of the sign-in for a target, and renews it. One
// renewal serves all callers in all processes.
type Source struct {
	store  *Store
	target *url.URL
	// keyed is the file (records) of a keyed sign-in; "" for one that is found by target.
	keyed string

	mu sync.Mutex // held by the goroutine that waits for the file's lock

	cached sync.Mutex
	read   fs.FileInfo // of keyed, when kept was read
	kept   *signIn
}

// Source returns the source for a URL: that of the resource or one below it.
func (s *Store) Source(target string) (*Source, error) {
	u, err := parseTarget(target)
	if err != nil {
		return nil, err
	}
	return &Source{store: s, target: u}, nil
}

// file returns the file of the sign-in.
func (c *Source) file(kept *signIn) (string, error) {
	if c.keyed != "" {
		return c.keyed, nil
	}
	resource, err := url.Parse(kept.Resource)
	if err != nil {
		return "", err
	}
	return c.store.records.signIn(key(resource)), nil
}

// current returns the sign-in; nil when there is none. A keyed sign-in is
// read again only when its file was replaced.
func (c *Source) current(ctx context.Context) (*signIn, error) {
	records := c.store.records
	if c.keyed == "" {
		file, kept, err := records.find(ctx, c.target)
		if err == nil && kept != nil {
			err = records.adopt(ctx, file)
		}
		return kept, err
	}
	if err := c.adopt(ctx); err != nil {
		return nil, err
	}
	info, err := os.Stat(c.keyed)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a sign-in: %w", err)
	}
	c.cached.Lock()
	defer c.cached.Unlock()
	if c.kept != nil && os.SameFile(c.read, info) && c.read.ModTime().Equal(info.ModTime()) && c.read.Size() == info.Size() {
		return c.kept, nil
	}
	kept, err := records.load(ctx, c.keyed)
	if err != nil || kept == nil {
		return nil, err
	}
	if kept.Target != c.target.String() {
		return nil, fmt.Errorf("%w: the stored one is for another server", ErrSignIn)
	}
	c.read, c.kept = info, kept
	return kept, nil
}

// adopt moves a keyed sign-in of an earlier version into the secrets store, once.
func (c *Source) adopt(ctx context.Context) error {
	c.cached.Lock()
	known := c.kept != nil
	c.cached.Unlock()
	if known {
		return nil
	}
	return c.store.records.adopt(ctx, c.keyed)
}

// Token returns an unexpired access token, or "" when there is no sign-in. The error
// is ErrSignIn when the sign-in can no longer be renewed.
func (c *Source) Token(ctx context.Context) (string, error) {
	kept, err := c.current(ctx)
	if err != nil || kept == nil {
		return "", err
	}
	if kept.fresh(c.store.now()) {
		return string(kept.AccessToken), nil
	}
	return c.renew(ctx, kept, func(k *signIn) bool { return k.fresh(c.store.now()) })
}

// Renew returns another token than the one that the resource rejected. The error is
// ErrSignIn when there is none.
func (c *Source) Renew(ctx context.Context, refused string) (string, error) {
	kept, err := c.current(ctx)
	if err != nil {
		return "", err
	}
	if kept == nil {
		return "", ErrSignIn
	}
	return c.renew(ctx, kept, func(k *signIn) bool { return string(k.AccessToken) != refused && k.fresh(c.store.now()) })
}

// renew renews the sign-in, unless enough holds once the lock is held: another caller
// may have renewed it.
func (c *Source) renew(ctx context.Context, kept *signIn, enough func(*signIn) bool) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	file, err := c.file(kept)
	if err != nil {
		return "", err
	}
	var token string
	err = locked(ctx, file, func() error {
		now, err := c.store.records.load(ctx, file)
		if err != nil {
			return err
		}
		if now == nil {
			return ErrSignIn // signed out meanwhile
		}
		if !enough(now) {
			if err := c.store.refresh(ctx, file, now); err != nil {
				return err
			}
		}
		token = string(now.AccessToken)
		return nil
	})
	return token, err
}

// fresh reports whether the access token can be used now. One whose expiry is unknown
// is used until it is rejected.
func (g *grant) fresh(now time.Time) bool {
	return g.Expires.IsZero() || now.Before(g.Expires.Add(-leeway))
}

// refresh uses the refresh token (RFC 6749 section 6). The caller holds the lock.
func (s *Store) refresh(ctx context.Context, file string, kept *signIn) error {
	if kept.RefreshToken == "" {
		return fmt.Errorf("%w: the one at %s has ended", ErrSignIn, kept.Issuer)
	}
	w, err := s.within(kept.Reach)
	if err != nil {
		return err
	}
	defer w.close()
	// A server that rotates refresh tokens has invalidated the old one when it
	// responds. So the request does not end with the caller's context, and the record
	// is written before, which shows that the response can be saved.
	ctx = context.WithoutCancel(ctx)
	if err := s.records.write(ctx, file, kept); err != nil {
		return err
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {string(kept.RefreshToken)}}
	if indicator := kept.indicator(); indicator != "" {
		form.Set("resource", indicator)
	}
	g, err := s.request(ctx, w, kept.TokenEndpoint, kept.Client, form)
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal) && final(refusal):
		if kept.Client.Own && refusal.Code == "invalid_client" {
			s.records.dropRegistration(ctx, kept.Issuer, kept.Client)
		}
		kept.RefreshToken = ""
		if err := s.records.write(ctx, file, kept); err != nil {
			return err
		}
		return fmt.Errorf("%w: %s does not renew the last one: %w", ErrSignIn, kept.Issuer, refusal)
	case err != nil:
		return fmt.Errorf("renew the sign-in at %s: %w", kept.Issuer, err)
	}
	if g.RefreshToken == "" { // RFC 6749 section 6: the old one stays valid
		g.RefreshToken = kept.RefreshToken
	}
	if g.Scope == "" {
		g.Scope = kept.Scope
	}
	kept.grant = *g
	return s.records.write(ctx, file, kept)
}

// final reports whether a refusal is permanent, not an outage.
func final(r *Refusal) bool {
	return r.Status < 500 && r.Status != http.StatusTooManyRequests && r.Status != http.StatusRequestTimeout &&
		r.Code != "" && r.Code != "temporarily_unavailable" && r.Code != "server_error"
}
