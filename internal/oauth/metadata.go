package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// Metadata describes an authorization server (RFC 8414 section 2).
type Metadata struct {
	Issuer        string `json:"issuer"`
	Authorization string `json:"authorization_endpoint"`
	Token         string `json:"token_endpoint"`
	Registration  string `json:"registration_endpoint"`
	Revocation    string `json:"revocation_endpoint"`
	// UserInfo and Keys are of OpenID Connect Discovery 1.0 section 3.
	UserInfo      string   `json:"userinfo_endpoint"`
	Keys          string   `json:"jwks_uri"`
	Scopes        []string `json:"scopes_supported"`
	ResponseTypes []string `json:"response_types_supported"`
	GrantTypes    []string `json:"grant_types_supported"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	// ReadsClients: a client id may be the URL of a client id metadata document
	// (draft-ietf-oauth-client-id-metadata-document, section 5).
	ReadsClients bool `json:"client_id_metadata_document_supported"`
	// SendsIssuer: authorization responses have iss (RFC 9207 section 3).
	SendsIssuer bool `json:"authorization_response_iss_parameter_supported"`
}

// Locations are where an issuer's metadata may be, in the order of MCP
// authorization, "Authorization Server Metadata Discovery": RFC 8414 section 3.1,
// then OpenID Connect Discovery. The last one is that of OpenID Connect Discovery
// 1.0 section 4.
func Locations(issuer *url.URL) []string {
	const oauth, oidc = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	base, path := issuer.Scheme+"://"+issuer.Host, strings.TrimSuffix(issuer.EscapedPath(), "/")
	if path == "" {
		return []string{base + oauth, base + oidc}
	}
	return []string{base + oauth + path, base + oidc + path, base + path + oidc}
}

// Get fetches a document. Errors name the URL.
type Get func(ctx context.Context, url string) (*Response, error)

// Get is the Sender as a Get.
func (s Sender) Get(ctx context.Context, url string) (*Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return s(req)
}

// Discover decodes the issuer's metadata from the first location that has a document
// into v, and returns that location. A location that fails (5xx) ends the search: the
// document may be there.
func Discover(ctx context.Context, get Get, issuer string, locations []string, v any) (location string, err error) {
	var faults []string
	for _, location := range locations {
		resp, err := get(ctx, location)
		if err != nil {
			return "", err
		}
		switch {
		case resp.Status >= 500:
			return "", fmt.Errorf("%s: it answers %d %s", location, resp.Status, http.StatusText(resp.Status))
		case resp.Status != http.StatusOK:
			faults = append(faults, fmt.Sprintf("%s (it answers %d %s)", location, resp.Status, http.StatusText(resp.Status)))
			continue
		}
		err = DecodeMetadata(resp.Body, issuer, v)
		if errors.Is(err, ErrNotObject) {
			faults = append(faults, location+" ("+err.Error()+")")
			continue
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", location, err)
		}
		return location, nil
	}
	return "", fmt.Errorf("%s is not an authorization server: it has no metadata at %s", plaintext.Excerpt(issuer, maxShown), strings.Join(faults, ", "))
}

// DecodeMetadata decodes a document into v. It must be the document of the issuer,
// byte for byte (RFC 8414 section 3.3, OpenID Connect Discovery 1.0 section 4.3):
// otherwise any server could act for any issuer.
func DecodeMetadata(body []byte, issuer string, v any) error {
	var document struct {
		Issuer string `json:"issuer"`
	}
	if err := Decode(body, &document); err != nil {
		return err
	}
	if document.Issuer != issuer {
		return fmt.Errorf("it is the metadata of another issuer: expected %q, got %q", plaintext.Excerpt(issuer, maxShown), plaintext.Excerpt(document.Issuer, maxShown))
	}
	return Decode(body, v)
}
