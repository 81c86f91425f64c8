package oauthclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/oauth"
)

// server is an authorization server with checked metadata.
type server struct {
	oauth.Metadata
	reach reach
	// unlisted: the user named its endpoints; it has no metadata. Issuer is then the
	// token endpoint.
	unlisted bool
}

// unlisted returns the authorization server of two endpoints.
func unlisted(authorize, token string) (*server, error) {
	for _, endpoint := range []string{authorize, token} {
		if _, err := reachAny.checkURL("the endpoint", endpoint); err != nil {
			return nil, err
		}
	}
	return &server{Metadata: oauth.Metadata{Issuer: token, Authorization: authorize, Token: token}, reach: reachAny, unlisted: true}, nil
}

// reads reports whether the client is the metadata document of r.
func (s *server) reads(r Registered) bool {
	return r.ID == "" && r.MetadataURL != "" && s.ReadsClients
}

// identityScopes are the scopes that are requested where neither the user nor the resource
// names any: those of OpenID Connect that the server has.
func (s *server) identityScopes() []string {
	if !slices.Contains(s.Scopes, "openid") {
		return nil
	}
	var scopes []string
	for _, scope := range []string{"openid", "profile", "email"} {
		if slices.Contains(s.Scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// server fetches and checks the metadata of an authorization server.
func (s *Store) server(ctx context.Context, issuer string, r reach) (*server, error) {
	u, err := r.checkURL("the authorization server", issuer)
	if err != nil {
		return nil, err
	}
	if u.RawQuery != "" || u.ForceQuery { // RFC 8414 section 2
		return nil, fmt.Errorf("the authorization server %q has a query", oauth.Hide(issuer))
	}
	w, err := s.within(r)
	if err != nil {
		return nil, err
	}
	defer w.close()
	found := &server{reach: r}
	place, err := oauth.Discover(ctx, w.sender().Get, issuer, oauth.Locations(u), &found.Metadata)
	if err != nil {
		return nil, fmt.Errorf("find the authorization server: %w", err)
	}
	if err := found.check(); err != nil {
		return nil, fmt.Errorf("the authorization server's metadata at %s: %w", place, err)
	}
	return found, nil
}

// preset is what a well-known provider requires.
func (s *server) preset() oauth.Preset { return oauth.PresetOf(s.Authorization) }

// check reports everything that prevents a sign-in at the server.
func (s *server) check() error {
	var faults []string
	for _, e := range []struct {
		name, value string
		required    bool
	}{
		{"authorization_endpoint", s.Authorization, true},
		{"token_endpoint", s.Token, true},
		{"registration_endpoint", s.Registration, false},
		{"revocation_endpoint", s.Revocation, false},
	} {
		if e.value == "" {
			if e.required {
				faults = append(faults, "it has no "+e.name)
			}
			continue
		}
		if _, err := s.reach.checkURL(e.name, e.value); err != nil {
			faults = append(faults, err.Error())
		}
	}
	// MCP authorization, "Authorization Code Protection": without the list, or
	// without S256 in it, a client must not continue.
	if !slices.Contains(s.Challenges, "S256") {
		faults = append(faults, "it does not offer PKCE with S256 (code_challenge_methods_supported), without which a sign-in is not safe")
	}
	if s.ResponseTypes != nil && !slices.Contains(s.ResponseTypes, "code") {
		faults = append(faults, "it does not offer authorization codes (response_types_supported)")
	}
	if s.GrantTypes != nil && !slices.Contains(s.GrantTypes, "authorization_code") {
		faults = append(faults, "it does not offer authorization codes (grant_types_supported)")
	}
	if len(faults) > 0 {
		return errors.New(strings.Join(faults, "; "))
	}
	return nil
}

// renews reports whether the server may issue refresh tokens. By RFC 8414 section 2
// a server without grant_types_supported does not, but many such servers do.
func (s *server) renews() bool {
	return s.GrantTypes == nil || slices.Contains(s.GrantTypes, "refresh_token")
}

// scopes adds the scope for a refresh token (MCP authorization, "Refresh Tokens").
func (s *server) scopes(wanted []string) []string {
	const offline = oauth.OfflineAccess
	if s.renews() && slices.Contains(s.Scopes, offline) && !slices.Contains(wanted, offline) && !s.preset().NoOffline {
		wanted = append(slices.Clone(wanted), offline)
	}
	return wanted
}
