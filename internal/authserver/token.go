package authserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/storage"
	"github.com/toolhaven/toolhaven/internal/authserver/vault"
)

// grace is how long a refresh token that was just rotated returns its successor again: the
// response may have been lost, or two threads of a client used it (RFC 9700 section
// 4.14.2).
const grace = 30 * time.Second

// grant is what a person granted to a client.
type grant struct {
	Client    string   `json:"client"`
	Refresh   bool     `json:"refresh"`
	Scopes    []string `json:"scopes"`
	Providers []string `json:"providers,omitempty"`
	person
}

// codeRecord is an authorization code.
type codeRecord struct {
	Session   string `json:"session"`
	Redirect  string `json:"redirect"`
	Challenge string `json:"challenge"`
	Nonce     string `json:"nonce,omitempty"`
	Used      bool   `json:"used,omitempty"`
	grant
}

// session is what a code gave. Its refresh token is derived from its id and generation.
type session struct {
	Generation uint64 `json:"generation"`
	Rotated    int64  `json:"rotated"` // Unix milliseconds
	grant
}

// authenticated is an endpoint of clients: it reads the form and authenticates its client.
func (s *tokens) authenticated(h func(w http.ResponseWriter, r *http.Request, c *client, form url.Values)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		form, fault := readForm(r)
		if fault != nil {
			s.fail(w, fault)
			return
		}
		c, fault := s.clients.authenticate(r, form)
		if fault != nil {
			s.fail(w, fault)
			return
		}
		h(w, r, c, form)
	}
}

// token is the token endpoint (RFC 6749 section 3.2).
func (s *tokens) token(w http.ResponseWriter, r *http.Request, c *client, form url.Values) {
	for _, resource := range form["resource"] {
		if !s.isResource(resource) {
			s.fail(w, invalidTarget)
			return
		}
	}
	var answer map[string]any
	var fault *oauthError
	switch form.Get("grant_type") {
	case "authorization_code":
		answer, fault = s.redeem(r.Context(), c, form)
	case "refresh_token":
		answer, fault = s.refresh(r.Context(), c, form)
	case "":
		fault = missing(form, "grant_type")
	default:
		fault = &oauthError{code: "unsupported_grant_type", description: "grant_type must be authorization_code or refresh_token"}
	}
	if fault != nil {
		s.fail(w, fault)
		return
	}
	w.Header().Set("Pragma", "no-cache")
	writeJSON(w, http.StatusOK, answer)
}

// readForm reads the parameters of the body; those of the URL do not count. None but
// resource may occur twice (RFC 6749 section 3.2).
func readForm(r *http.Request) (url.Values, *oauthError) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/x-www-form-urlencoded" {
		return nil, &oauthError{code: "invalid_request", description: "the content type must be application/x-www-form-urlencoded"}
	}
	if err := r.ParseForm(); err != nil {
		return nil, &oauthError{code: "invalid_request", description: "the body is not a form, or too large"}
	}
	for name, values := range r.PostForm {
		if len(values) > 1 && name != "resource" {
			return nil, &oauthError{code: "invalid_request", description: "a parameter occurs twice"}
		}
	}
	return r.PostForm, nil
}

func invalidGrant(description string) *oauthError {
	return &oauthError{code: "invalid_grant", description: description}
}

// missing returns the error for the first of these parameters that the form does not have
// (RFC 6749 section 5.2).
func missing(form url.Values, names ...string) *oauthError {
	for _, name := range names {
		if form.Get(name) == "" {
			return &oauthError{code: "invalid_request", description: name + " is missing"}
		}
	}
	return nil
}

// verifierPattern is RFC 7636 section 4.1.
var verifierPattern = regexp.MustCompile(`^[A-Za-z0-9._~-]{43,128}$`)

// redeem exchanges a code (RFC 6749 section 4.1.3, RFC 7636 section 4.6). redirect_uri may be
// left out, as in OAuth 2.1: the verifier binds the code to its client.
func (s *tokens) redeem(ctx context.Context, c *client, form url.Values) (map[string]any, *oauthError) {
	if fault := missing(form, "code", "code_verifier"); fault != nil {
		return nil, fault
	}
	code := form.Get("code")
	var record codeRecord
	raw, err := s.get(ctx, kindCode, code, &record)
	switch {
	case errors.Is(err, errUnavailable):
		return nil, unavailableError
	case err != nil:
		return nil, invalidGrant("the code has expired or is not valid here")
	case record.Client != c.ID:
		return nil, invalidGrant("the code is of another client")
	case form.Get("redirect_uri") != "" && form.Get("redirect_uri") != record.Redirect:
		return nil, invalidGrant("redirect_uri is not that of the authorization request")
	}
	verifier := form.Get("code_verifier")
	sum := sha256.Sum256([]byte(verifier))
	if !verifierPattern.MatchString(verifier) || subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(record.Challenge)) != 1 {
		return nil, invalidGrant("code_verifier does not match")
	}
	if record.Used { // RFC 6749 section 4.1.2
		return nil, s.replayed(ctx, record.Session, &record.grant)
	}
	// The session comes before the mark: a client whose request fails between them may
	// repeat it.
	current := &session{Rotated: s.now().UnixMilli(), grant: record.grant}
	if err := s.put(ctx, kindSession, record.Session, current, s.sessionLifetime(&record.grant)); err != nil {
		return nil, unavailableError
	}
	record.Used = true
	switch err := s.swap(ctx, kindCode, code, raw, &record, s.lifespans.code); {
	case errors.Is(err, storage.ErrChanged):
		return nil, s.replayed(ctx, record.Session, &record.grant)
	case err != nil:
		return nil, unavailableError
	}
	return s.issue(record.Session, current, record.Scopes, record.Nonce)
}

// replayed revokes what a code or refresh token gave that was used by two.
func (s *tokens) replayed(ctx context.Context, id string, g *grant) *oauthError {
	s.cfg.Log.Warn("a code or refresh token was used again; its session is revoked", "subject", g.Subject)
	if err := s.revokeSession(ctx, id, g); err != nil {
		return unavailableError
	}
	return invalidGrant("it was used already; the login is revoked")
}

// revokeSession ends a session: its refresh tokens, and its upstream tokens.
func (s *tokens) revokeSession(ctx context.Context, id string, g *grant) error {
	var errs []error
	for _, provider := range g.Providers {
		errs = append(errs, s.cfg.Vault.Delete(ctx, vault.Binding{Session: id, Client: g.Client, Provider: provider, Subject: g.Subject}))
	}
	errs = append(errs, s.stored(s.cfg.Store.Delete(ctx, key(kindSession, id))))
	return errors.Join(errs...)
}

// sessionLifetime is how long a session is kept after a token was issued.
func (s *tokens) sessionLifetime(g *grant) time.Duration {
	if g.Refresh {
		return s.lifespans.refresh
	}
	return s.lifespans.access
}

// refresh exchanges a refresh token (RFC 6749 section 6). Each use makes a new generation.
// The use of an older one revokes the session (RFC 9700 section 4.14.2).
func (s *tokens) refresh(ctx context.Context, c *client, form url.Values) (map[string]any, *oauthError) {
	if fault := missing(form, "refresh_token"); fault != nil {
		return nil, fault
	}
	id, generation, ok := s.openRefresh(form.Get("refresh_token"))
	if !ok {
		return nil, invalidGrant("the refresh token is not valid here")
	}
	for range 5 {
		var current session
		raw, err := s.get(ctx, kindSession, id, &current)
		switch {
		case errors.Is(err, errUnavailable):
			return nil, unavailableError
		case err != nil:
			return nil, invalidGrant("the refresh token has expired or was revoked")
		case current.Client != c.ID:
			return nil, invalidGrant("the refresh token is of another client")
		}
		scopes := strings.Fields(form.Get("scope"))
		if len(scopes) == 0 {
			scopes = current.Scopes
		}
		for _, scope := range scopes {
			if !slices.Contains(current.Scopes, scope) {
				return nil, &oauthError{code: "invalid_scope", description: "a scope was not granted"}
			}
		}
		now := s.now()
		if generation+1 == current.Generation && now.Sub(time.UnixMilli(current.Rotated)) <= grace {
			return s.issue(id, &current, scopes, "")
		}
		if generation < current.Generation {
			return nil, s.replayed(ctx, id, &current.grant)
		}
		// A store that lost its last writes may have an older generation than the token.
		current.Generation, current.Rotated = generation+1, now.UnixMilli()
		err = s.swap(ctx, kindSession, id, raw, &current, s.lifespans.refresh)
		if errors.Is(err, storage.ErrChanged) {
			continue
		}
		if err != nil {
			return nil, unavailableError
		}
		for _, provider := range current.Providers {
			b := vault.Binding{Session: id, Client: current.Client, Provider: provider, Subject: current.Subject}
			if err := s.cfg.Vault.Extend(ctx, b, s.lifespans.refresh+s.lifespans.access); err != nil && !errors.Is(err, vault.ErrLogin) {
				s.cfg.Log.Warn("the lifetime of an upstream token is not extended", "provider", provider, "error", err)
			}
		}
		return s.issue(id, &current, scopes, "")
	}
	return nil, unavailableError
}

// refreshMessage is what the tag of a refresh token covers.
func refreshMessage(id string, generation uint64) string {
	return id + "." + strconv.FormatUint(generation, 10)
}

// sealRefresh returns the refresh token of a session's generation.
func sealRefresh(keys *ring, id string, generation uint64) string {
	message := refreshMessage(id, generation)
	return message + "." + base64.RawURLEncoding.EncodeToString(tag(keys.refresh[0], message))
}

// openRefresh verifies a refresh token.
func (s *tokens) openRefresh(text string) (id string, generation uint64, ok bool) {
	parts := strings.Split(text, ".")
	if len(text) > 256 || len(parts) != 3 {
		return "", 0, false
	}
	generation, err := strconv.ParseUint(parts[1], 10, 63)
	if err != nil {
		return "", 0, false
	}
	got, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	if err != nil {
		return "", 0, false
	}
	keys, err := s.ring.get()
	if err != nil || !verifyTag(keys.refresh, parts[0]+"."+parts[1], got) {
		return "", 0, false
	}
	return parts[0], generation, true
}

// issue makes the token response (RFC 6749 section 5.1) with an access token (RFC 9068
// section 2.2).
func (s *tokens) issue(id string, current *session, scopes []string, nonce string) (map[string]any, *oauthError) {
	keys, err := s.signing.get()
	if err != nil {
		return nil, unavailableError
	}
	now := s.now()
	claims := accessClaims{
		Issuer: s.cfg.Spec.Issuer, Subject: current.Subject, Audience: s.cfg.Resource, Client: current.Client,
		Issued: now.Unix(), Expires: now.Add(s.lifespans.access).Unix(), ID: rand.Text(),
		Scope: strings.Join(scopes, " "), Session: id, AuthTime: current.At,
	}
	claims.Name, claims.Email = current.described(scopes)
	access, err := token(keys.access, claims)
	if err != nil {
		s.cfg.Log.Error("an access token cannot be signed", "error", err)
		return nil, &oauthError{code: "server_error", description: "the token cannot be signed", status: http.StatusInternalServerError}
	}
	answer := map[string]any{
		"access_token": access, "token_type": "Bearer", "expires_in": int(s.lifespans.access.Seconds()), "scope": claims.Scope,
	}
	if current.Refresh {
		ring, err := s.ring.get()
		if err != nil {
			return nil, unavailableError
		}
		answer["refresh_token"] = sealRefresh(ring, id, current.Generation)
	}
	if slices.Contains(scopes, "openid") { // OpenID Connect Core section 3.1.3.3
		sum := sha256.Sum256([]byte(access))
		identity := idClaims{
			Issuer: s.cfg.Spec.Issuer, Subject: current.Subject, Audience: current.Client,
			Issued: now.Unix(), Expires: now.Add(s.lifespans.access).Unix(), AuthTime: current.At, Nonce: nonce,
			Name: claims.Name, Email: claims.Email,
		}
		if keys.alg == "RS256" || keys.alg == "ES256" { // the hash is that of the algorithm
			identity.AccessHash = base64.RawURLEncoding.EncodeToString(sum[:16])
		}
		if answer["id_token"], err = token(keys.id, identity); err != nil {
			return nil, &oauthError{code: "server_error", description: "the token cannot be signed", status: http.StatusInternalServerError}
		}
	}
	return answer, nil
}

// described are the person's name and address, as far as scopes permit.
func (p *person) described(scopes []string) (name, email string) {
	if slices.Contains(scopes, "profile") {
		name = p.Full
	}
	if slices.Contains(scopes, "email") {
		email = p.Email
	}
	return name, email
}

// accessClaims are those of an access token (RFC 9068 section 2.2). A struct is encoded in a
// third of a map's time.
type accessClaims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	Client   string `json:"client_id"`
	Issued   int64  `json:"iat"`
	Expires  int64  `json:"exp"`
	ID       string `json:"jti"`
	Scope    string `json:"scope"`
	Session  string `json:"sid"`
	AuthTime int64  `json:"auth_time"`
	Name     string `json:"name,omitempty"`
	Email    string `json:"email,omitempty"`
}

// idClaims are those of an ID token (OpenID Connect Core sections 2 and 3.1.3.6).
type idClaims struct {
	Issuer     string `json:"iss"`
	Subject    string `json:"sub"`
	Audience   string `json:"aud"`
	Issued     int64  `json:"iat"`
	Expires    int64  `json:"exp"`
	AuthTime   int64  `json:"auth_time"`
	Nonce      string `json:"nonce,omitempty"`
	AccessHash string `json:"at_hash,omitempty"`
	Name       string `json:"name,omitempty"`
	Email      string `json:"email,omitempty"`
}
