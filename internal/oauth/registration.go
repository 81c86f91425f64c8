package oauth

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// ClientMetadata is the request of a client to be registered (RFC 7591 section 2).
type ClientMetadata struct {
	Name              string   `json:"client_name"`
	ApplicationType   string   `json:"application_type,omitempty"` // OpenID Connect Registration 1.0 section 2
	RedirectURIs      []string `json:"redirect_uris"`
	GrantTypes        []string `json:"grant_types"`
	ResponseTypes     []string `json:"response_types"`
	Method            string   `json:"token_endpoint_auth_method"`
	Scope             string   `json:"scope,omitempty"`
	SoftwareID        string   `json:"software_id,omitempty"`
	SoftwareStatement string   `json:"software_statement,omitempty"`
}

// Registered is a client that a server registered.
type Registered struct {
	Client
	Expires time.Time // of the secret; zero: never
}

// maxSecret bounds a client secret that a server issues, in bytes.
const maxSecret = 4 << 10

// Register registers a client (RFC 7591 section 3). token is the initial access token; ""
// is none. The error is a *Refusal, or describes a malformed response.
func Register(ctx context.Context, send Sender, endpoint, token string, m *ClientMetadata) (*Registered, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := send(req)
	if err != nil {
		return nil, err
	}
	// Section 3.2.1 has 201; several servers send 200.
	if resp.Status != http.StatusCreated && resp.Status != http.StatusOK {
		return nil, resp.Refusal(token, m.SoftwareStatement)
	}
	return m.registered(resp.Body)
}

// registered reads the response (RFC 7591 section 3.2.1).
func (m *ClientMetadata) registered(body []byte) (*Registered, error) {
	var given struct {
		ID        string   `json:"client_id"`
		Secret    string   `json:"client_secret"`
		Expires   int64    `json:"client_secret_expires_at"`
		Method    string   `json:"token_endpoint_auth_method"`
		Redirects []string `json:"redirect_uris"`
	}
	if err := Decode(body, &given); err != nil {
		return nil, err
	}
	switch {
	case given.ID == "" || len(given.ID) > 2048 || strings.ContainsFunc(given.ID, func(r rune) bool { return r < ' ' || r > '~' }):
		return nil, errors.New("its response has no usable client_id") // RFC 6749 appendix A.1
	case given.Redirects != nil && slices.ContainsFunc(m.RedirectURIs, func(uri string) bool { return !slices.Contains(given.Redirects, uri) }):
		return nil, errors.New("it registered another redirect URI than ours")
	}
	r := &Registered{Client: Client{ID: given.ID, Method: cmp.Or(given.Method, m.Method)}}
	switch r.Method {
	case MethodNone:
		return r, nil
	case MethodBasic, MethodPost:
		if given.Secret == "" || len(given.Secret) > maxSecret {
			return nil, errors.New("its response has no usable client_secret")
		}
		r.Secret = given.Secret
		if given.Expires > 0 {
			r.Expires = time.Unix(given.Expires, 0)
		}
		return r, nil
	}
	return nil, fmt.Errorf("it requires the client to authenticate by %q, which thv does not support", Hide(given.Method))
}
