package authserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
)

// revoke is the revocation endpoint (RFC 7009). Any token of a session ends the whole
// session; access tokens that are out stay valid until they expire, because they are
// verified without a request. A token that is not the client's changes nothing and is no
// error (section 2.2).
func (s *tokens) revoke(w http.ResponseWriter, r *http.Request, c *client, form url.Values) {
	if fault := missing(form, "token"); fault != nil {
		s.fail(w, fault)
		return
	}
	id, _ := s.sessionOf(form.Get("token"))
	if id != "" {
		var current session
		_, err := s.get(r.Context(), kindSession, id, &current)
		if err == nil && current.Client == c.ID {
			err = s.revokeSession(r.Context(), id, &current.grant)
		}
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			s.cfg.Log.Error("a session is not revoked as a whole", "error", err)
			s.fail(w, unavailableError)
			return
		}
	}
	w.WriteHeader(http.StatusOK)
}

// introspect is the introspection endpoint (RFC 7662). A client learns about its own tokens
// only.
func (s *tokens) introspect(w http.ResponseWriter, r *http.Request, c *client, form url.Values) {
	answer, err := s.describeToken(r.Context(), c, form.Get("token"))
	if errors.Is(err, errUnavailable) {
		s.fail(w, unavailableError)
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

func (s *tokens) describeToken(ctx context.Context, c *client, text string) (map[string]any, error) {
	inactive := map[string]any{"active": false} // section 2.2
	id, claims := s.sessionOf(text)
	if id == "" {
		return inactive, nil
	}
	var current session
	if _, err := s.get(ctx, kindSession, id, &current); err != nil {
		return inactive, err
	}
	if current.Client != c.ID {
		return inactive, nil
	}
	if claims != nil {
		claims["active"], claims["token_type"] = true, "Bearer"
		return claims, nil
	}
	_, generation, _ := s.openRefresh(text)
	if generation != current.Generation {
		return inactive, nil
	}
	return map[string]any{
		"active": true, "iss": s.cfg.Spec.Issuer, "sub": current.Subject, "client_id": current.Client,
		"scope": strings.Join(current.Scopes, " "), "aud": s.cfg.Resource,
	}, nil
}

// sessionOf returns the session of a refresh token, or of an access token with its claims;
// "" for anything else.
func (s *tokens) sessionOf(text string) (id string, claims map[string]any) {
	if id, _, ok := s.openRefresh(text); ok {
		return id, nil
	}
	keys, err := s.signing.get()
	if err != nil || len(text) > maxRegistration {
		return "", nil
	}
	var algorithms []jose.SignatureAlgorithm
	for _, k := range keys.public.Keys {
		algorithms = append(algorithms, jose.SignatureAlgorithm(k.Algorithm))
	}
	signed, err := jose.ParseSignedCompact(text, algorithms)
	if err != nil || signed.Signatures[0].Protected.ExtraHeaders[jose.HeaderType] != "at+jwt" {
		return "", nil
	}
	at := slices.IndexFunc(keys.public.Keys, func(k jose.JSONWebKey) bool { return k.KeyID == signed.Signatures[0].Protected.KeyID })
	if at < 0 {
		return "", nil
	}
	payload, err := signed.Verify(keys.public.Keys[at])
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return "", nil
	}
	expires, _ := claims["exp"].(float64)
	if claims["iss"] != s.cfg.Spec.Issuer || time.Unix(int64(expires), 0).Before(s.now()) {
		return "", nil
	}
	id, _ = claims["sid"].(string)
	return id, claims
}
