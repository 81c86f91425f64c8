package oauthclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// grantKey identifies a keyed sign-in. clientID is "" for a client that registers itself:
// it may have to register again, and the key stays.
func grantKey(issuer, resource, clientID, target string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{issuer, resource, clientID, target}, "\n")))
	return hex.EncodeToString(sum[:16])
}

var validKey = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Keyed returns the source of a keyed sign-in for a target. Its tokens are for the target
// only: a key from elsewhere gives no token for another server. Without the sign-in, its
// methods return ErrSignIn.
func (s *Store) Keyed(key, target string) (*KeyedSource, error) {
	u, err := parseTarget(target)
	if err != nil {
		return nil, err
	}
	if !validKey.MatchString(key) {
		key = strings.Repeat("0", 32) // there is no such sign-in
	}
	return &KeyedSource{&Source{store: s, target: u, keyed: s.records.grant(key)}}, nil
}

// KeyedSource is a [Source] of a keyed sign-in.
type KeyedSource struct{ source *Source }

// Token returns an unexpired access token.
func (k *KeyedSource) Token(ctx context.Context) (string, error) {
	token, err := k.source.Token(ctx)
	if err == nil && token == "" {
		err = ErrSignIn
	}
	return token, err
}

// Renew returns another token than the one that the resource rejected.
func (k *KeyedSource) Renew(ctx context.Context, refused string) (string, error) {
	return k.source.Renew(ctx, refused)
}

// Require notes scopes that the resource requires: the next sign-in requests them too. It
// returns those that the present one lacks.
func (k *KeyedSource) Require(ctx context.Context, scopes []string) (missing []string, err error) {
	scopes, err = checkScopes(scopes)
	if err != nil {
		return nil, err
	}
	file, records := k.source.keyed, k.source.store.records
	err = locked(ctx, file, func() error {
		kept, err := records.load(ctx, file)
		if err != nil || kept == nil {
			return errors.Join(err, ErrSignIn)
		}
		for _, scope := range scopes {
			if !slices.Contains(strings.Fields(kept.Scope), scope) {
				missing = append(missing, scope)
			}
		}
		if covered(kept.Wanted, missing) || len(kept.Wanted)+len(missing) > maxScopes {
			return nil
		}
		kept.Wanted = union(kept.Wanted, missing)
		return records.write(ctx, file, kept)
	})
	return missing, err
}

// Wanted returns the scopes of the sign-in and those that the resource required since, if
// it required any.
func (k *KeyedSource) Wanted(ctx context.Context) []string {
	kept, err := k.source.current(ctx)
	if err != nil || kept == nil || len(kept.Wanted) == 0 {
		return nil
	}
	return union(strings.Fields(kept.Scope), kept.Wanted)
}

// SignOut revokes the sign-in at the authorization server, if that supports it (RFC 7009),
// and deletes it in any case.
func (k *KeyedSource) SignOut(ctx context.Context) (*Logout, error) {
	return k.source.store.signOut(ctx, k.source.keyed)
}

// reuse returns a kept sign-in that has the scopes and that the resource accepts; nil for
// none.
func (f *flow) reuse(ctx context.Context, key string) *Login {
	source, err := f.store.Keyed(key, f.request.Target)
	if err != nil {
		return nil
	}
	if _, err := source.Token(ctx); err != nil {
		return nil
	}
	kept, err := source.source.current(ctx)
	if err != nil || kept == nil || len(kept.Wanted) > 0 || len(f.request.Scopes) > 0 && !covered(strings.Fields(kept.Scope), f.resource.scopes) {
		return nil
	}
	if more, err := f.accepted(ctx, kept); err != nil || len(more) > 0 {
		return nil
	}
	login := kept.shown()
	login.Key, login.Reused = key, true
	return login
}

// Insufficient returns the scopes that a response 403 requires (RFC 6750 section 3.1); nil
// when it is not about scopes.
func Insufficient(h http.Header) []string {
	challenges, _ := ParseChallenges(h.Values("WWW-Authenticate"))
	c, ok := bearer(challenges, "scope")
	if !ok || c.Params["error"] != "insufficient_scope" {
		return nil
	}
	scopes, err := checkScopes(strings.Fields(c.Params["scope"]))
	if err != nil {
		return nil
	}
	return scopes
}

// covered reports whether all of needed are in scopes.
func covered(scopes, needed []string) bool {
	return !slices.ContainsFunc(needed, func(s string) bool { return !slices.Contains(scopes, s) })
}

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// Protected reports whether the resource of a request answers with 401.
func (s *Store) Protected(ctx context.Context, r Request) bool {
	target, err := parseTarget(r.Target)
	if err != nil {
		return false
	}
	w, err := s.within(reachAny)
	if err != nil {
		return false
	}
	defer w.close()
	a, err := w.refusal(ctx, target.String(), r.Bodies)
	return err == nil && a.Status == http.StatusUnauthorized
}
