package authserver

import (
	"encoding/json"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/externalauth"
)

const (
	wellKnownOAuth  = "/.well-known/oauth-authorization-server"
	wellKnownOpenID = "/.well-known/openid-configuration"
)

// metadata is the discovery document (RFC 8414 section 3, OpenID Connect Discovery).
func (s *Server) metadata(w http.ResponseWriter, r *http.Request) {
	keys, err := s.signing.get()
	if err != nil {
		s.unavailable(w, err)
		return
	}
	issuer := s.cfg.Spec.Issuer
	methods := []string{methodNone, methodBasic, methodPost}
	w.Header().Set("Cache-Control", "public, max-age=300")
	writeJSON(w, http.StatusOK, map[string]any{
		"issuer":                                         issuer,
		"authorization_endpoint":                         s.authorizeBase + pathAuthorize,
		"token_endpoint":                                 issuer + pathToken,
		"registration_endpoint":                          issuer + pathRegister,
		"revocation_endpoint":                            issuer + pathRevoke,
		"introspection_endpoint":                         issuer + pathIntrospect,
		"jwks_uri":                                       issuer + pathKeys,
		"scopes_supported":                               s.scopes,
		"response_types_supported":                       []string{"code"},
		"response_modes_supported":                       []string{"query"},
		"grant_types_supported":                          []string{"authorization_code", "refresh_token"},
		"code_challenge_methods_supported":               []string{"S256"},
		"token_endpoint_auth_methods_supported":          methods,
		"revocation_endpoint_auth_methods_supported":     methods,
		"introspection_endpoint_auth_methods_supported":  methods,
		"client_id_metadata_document_supported":          true,
		"authorization_response_iss_parameter_supported": true, // RFC 9207 section 3
		"subject_types_supported":                        []string{"public"},
		"id_token_signing_alg_values_supported":          []string{string(keys.alg)},
	})
}

// keys is the key set (RFC 7517 section 5) with every key that verifies.
func (s *Server) keys(w http.ResponseWriter, _ *http.Request) {
	keys, err := s.signing.get()
	if err != nil {
		s.unavailable(w, err)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=300")
	writeJSON(w, http.StatusOK, keys.public)
}

// KeySet returns the JSON of the key set, to verify access tokens without a request.
func (s *Server) KeySet() ([]byte, error) {
	keys, err := s.signing.get()
	if err != nil {
		return nil, err
	}
	return json.Marshal(keys.public)
}

// Spec is what the server was made from.
func (s *Server) Spec() *externalauth.EmbeddedAuthServer { return s.cfg.Spec }
