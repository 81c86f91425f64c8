package oauthclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// server is an authorization server's metadata (RFC 8414 section 2), checked.
type server struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	Revocation    string   `json:"revocation_endpoint"`
	Scopes        []string `json:"scopes_supported"`
	ResponseTypes []string `json:"response_types_supported"`
	GrantTypes    []string `json:"grant_types_supported"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	SendsIssuer   bool     `json:"authorization_response_iss_parameter_supported"`

	reach reach
}

// metadataPlaces are tried in this order (MCP authorization, "Authorization
// Server Metadata Discovery").
func metadataPlaces(issuer *url.URL) []string {
	const oauth, oidc = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	base, path := issuer.Scheme+"://"+issuer.Host, strings.TrimSuffix(issuer.EscapedPath(), "/")
	if path == "" {
		return []string{base + oauth, base + oidc}
	}
	return []string{base + oauth + path, base + oidc + path, base + path + oidc}
}

// server finds out what an authorization server offers.
func (s *Store) server(ctx context.Context, issuer string, r reach) (*server, error) {
	u, err := r.checkURL("the authorization server", issuer)
	if err != nil {
		return nil, err
	}
	if u.RawQuery != "" || u.ForceQuery { // RFC 8414 section 2
		return nil, fmt.Errorf("the authorization server %q has a query", clean(issuer))
	}
	w, err := s.within(r)
	if err != nil {
		return nil, err
	}
	defer w.close()
	places := metadataPlaces(u)
	for _, place := range places {
		a, err := w.get(ctx, place, "")
		if err != nil {
			return nil, fmt.Errorf("ask the authorization server: %w", err)
		}
		switch {
		case a.status >= 500:
			return nil, fmt.Errorf("ask the authorization server: %s: it answers %d %s", place, a.status, http.StatusText(a.status))
		case a.status != http.StatusOK || !a.object():
			continue
		}
		found, err := parseServer(a, issuer, r)
		if err != nil {
			return nil, fmt.Errorf("what the authorization server says of itself at %s: %w", place, err)
		}
		return found, nil
	}
	return nil, fmt.Errorf("%s is not an authorization server: it has no metadata at %s", clean(issuer), strings.Join(places, ", "))
}

func parseServer(a *answer, issuer string, r reach) (*server, error) {
	s := &server{reach: r}
	if err := a.decode(s); err != nil {
		return nil, err
	}
	// RFC 8414 section 3.3: a document of another issuer must not be used; the
	// comparison is of bytes.
	if s.Issuer != issuer {
		return nil, fmt.Errorf("it is of another issuer: expected %q, got %q", clean(issuer), clean(s.Issuer))
	}
	var errs []error
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
				errs = append(errs, fmt.Errorf("it has no %s", e.name))
			}
			continue
		}
		_, err := r.checkURL(e.name, e.value)
		errs = append(errs, err)
	}
	// MCP authorization, "Authorization Code Protection": without the list, or
	// without S256 in it, a client must not go on.
	if !slices.Contains(s.Challenges, "S256") {
		errs = append(errs, errors.New("it does not offer PKCE with S256 (code_challenge_methods_supported), without which a sign-in is not safe"))
	}
	if s.ResponseTypes != nil && !slices.Contains(s.ResponseTypes, "code") {
		errs = append(errs, errors.New("it does not offer authorization codes (response_types_supported)"))
	}
	if s.GrantTypes != nil && !slices.Contains(s.GrantTypes, "authorization_code") {
		errs = append(errs, errors.New("it does not offer authorization codes (grant_types_supported)"))
	}
	if err := oneLine(errors.Join(errs...)); err != nil {
		return nil, err
	}
	return s, nil
}

func oneLine(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
}

// renews tells whether the server may give refresh tokens. A server that does
// not say offers only the code grant by RFC 8414, but hardly one means it.
func (s *server) renews() bool {
	return s.GrantTypes == nil || slices.Contains(s.GrantTypes, "refresh_token")
}

// scopes adds what makes a server give a refresh token to what is asked for (MCP
// authorization, "Refresh Tokens").
func (s *server) scopes(wanted []string) []string {
	const offline = "offline_access"
	if s.renews() && slices.Contains(s.Scopes, offline) && !slices.Contains(wanted, offline) {
		wanted = append(slices.Clone(wanted), offline)
	}
	return wanted
}
