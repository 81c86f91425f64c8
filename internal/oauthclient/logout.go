package oauthclient

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Logout is how a sign-out ended.
type Logout struct {
	// Login is the deleted sign-in; nil when there was none.
	Login *Login
	// Revoked: the authorization server revoked it.
	Revoked bool
	// Problem is why it was not revoked; nil also when the server has no revocation
	// endpoint.
	Problem error
}

// SignOut revokes the sign-in for a target at the authorization server, if that
// supports it (RFC 7009), and deletes it in any case.
func (s *Store) SignOut(ctx context.Context, target string) (*Logout, error) {
	u, err := parseTarget(target)
	if err != nil {
		return nil, err
	}
	file, kept, err := s.records.find(ctx, u)
	if err != nil || kept == nil {
		return &Logout{}, err
	}
	return s.signOut(ctx, file)
}

// SignOutAll ends the keyed sign-ins for a target, of every authorization server and client,
// as [KeyedSource.SignOut] does. The result has no entry when there was none.
func (s *Store) SignOutAll(ctx context.Context, target string) (all []*Logout, err error) {
	u, err := parseTarget(target)
	if err != nil {
		return nil, err
	}
	files, err := s.records.grantsFor(ctx, u.String())
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		out, err := s.signOut(ctx, file)
		if err != nil {
			return all, err
		}
		if out.Login != nil {
			all = append(all, out)
		}
	}
	return all, nil
}

func (s *Store) signOut(ctx context.Context, file string) (*Logout, error) {
	out := &Logout{}
	err := locked(ctx, file, func() error {
		kept, err := s.records.load(ctx, file) // it may have been renewed meanwhile
		if err != nil || kept == nil {
			return err
		}
		out.Login = kept.shown()
		if kept.RevocationEndpoint != "" {
			out.Problem = s.revoke(ctx, kept)
			out.Revoked = out.Problem == nil
		}
		return s.records.forget(ctx, file)
	})
	return out, err
}

// revoke revokes the refresh token, and with it the grant, and the access token, in
// case the server does not revoke it with the grant (RFC 7009 section 2.1).
func (s *Store) revoke(ctx context.Context, kept *signIn) error {
	w, err := s.within(kept.Reach)
	if err != nil {
		return err
	}
	defer w.close()
	client, err := s.client(kept.Client)
	if err != nil {
		return err
	}
	for _, t := range []struct {
		hint  string
		token hidden
	}{{"refresh_token", kept.RefreshToken}, {"access_token", kept.AccessToken}} {
		if t.token == "" {
			continue
		}
		form := url.Values{"token": {string(t.token)}, "token_type_hint": {t.hint}}
		authenticate := client.Authenticate(form)
		a, err := w.post(ctx, kept.RevocationEndpoint, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()), authenticate)
		if err != nil {
			return err
		}
		if a.Status != http.StatusOK {
			refusal := a.Refusal(client.Secret, string(t.token))
			// RFC 7009 section 2.2.1: a server may not revoke access tokens.
			if t.hint == "access_token" && refusal.Code == "unsupported_token_type" {
				continue
			}
			return fmt.Errorf("%s: %w", kept.Issuer, refusal)
		}
	}
	return nil
}

// Current returns the sign-in for a target; nil when there is none.
func (s *Store) Current(ctx context.Context, target string) (*Login, error) {
	u, err := parseTarget(target)
	if err != nil {
		return nil, err
	}
	_, kept, err := s.records.find(ctx, u)
	if err != nil || kept == nil {
		return nil, err
	}
	return kept.shown(), nil
}
