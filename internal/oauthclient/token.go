package oauthclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Refusal is an authorization server's own no (RFC 6749 sections 4.1.2.1 and
// 5.2, RFC 7591 section 3.2.2). Its words are cleaned of everything that steers
// a terminal and of what was sent in confidence.
type Refusal struct {
	Code        string // "invalid_grant" for instance
	Description string // may be ""
	Status      int    // of HTTP; 0 for one that came through the browser
}

func (r *Refusal) Error() string {
	text := "it refuses: " + r.Code
	if r.Code == "" {
		text = fmt.Sprintf("it answers %d %s", r.Status, http.StatusText(r.Status))
	}
	if r.Description != "" {
		text += " (" + r.Description + ")"
	}
	return text
}

// refusal reads an error answer. What is no error object is told by its status
// alone. confidential are values that must not be repeated.
func (a *answer) refusal(confidential ...string) *Refusal {
	r := &Refusal{Status: a.status}
	var body struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
	}
	if a.decode(&body) == nil {
		r.Code, r.Description = without(body.Code, confidential), without(body.Description, confidential)
	}
	return r
}

// without is a stranger's text, cleaned, without what is confidential.
func without(text string, confidential []string) string {
	for _, c := range confidential {
		if c != "" {
			text = strings.ReplaceAll(text, c, "(hidden)")
			text = strings.ReplaceAll(text, url.QueryEscape(c), "(hidden)")
		}
	}
	return clean(text)
}

const (
	maxToken    = 64 << 10
	maxLifetime = 10 * 365 * 24 * time.Hour
)

// request asks a token endpoint for a grant (RFC 6749 sections 4.1.3 and 6).
func (s *Store) request(ctx context.Context, w *web, endpoint string, id identity, form url.Values) (*grant, error) {
	secret, err := id.secret(s.env)
	if err != nil {
		return nil, err
	}
	confidential := []string{secret, form.Get("code"), form.Get("code_verifier"), form.Get("refresh_token")}
	authenticate := id.authenticated(form, secret)
	asked := s.now()
	a, err := w.post(ctx, endpoint, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()), authenticate)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, a.refusal(confidential...)
	}
	var given struct {
		Access  string          `json:"access_token"`
		Type    string          `json:"token_type"`
		Refresh string          `json:"refresh_token"`
		Scope   string          `json:"scope"`
		Expires json.RawMessage `json:"expires_in"`
	}
	if err := a.decode(&given); err != nil {
		return nil, err
	}
	if given.Access == "" && a.refusal().Code != "" { // some refuse with 200
		return nil, a.refusal(confidential...)
	}
	switch {
	case given.Access == "":
		return nil, errors.New("it gave no access_token")
	case !strings.EqualFold(given.Type, "Bearer"): // RFC 6749 section 7.1
		return nil, fmt.Errorf("it gave a token of the type %q, and thv can use Bearer only", without(given.Type, append(confidential, given.Access)))
	case !ValidToken(given.Access):
		return nil, errors.New("it gave an access_token that cannot be sent in a header")
	case len(given.Refresh) > maxToken:
		return nil, errors.New("it gave a refresh_token that is too long")
	}
	lifetime, err := parseLifetime(given.Expires)
	if err != nil {
		return nil, err
	}
	g := &grant{AccessToken: hidden(given.Access), RefreshToken: hidden(given.Refresh)}
	if scopes, err := checkScopes(strings.Fields(given.Scope)); err == nil {
		g.Scope = strings.Join(scopes, " ")
	}
	if lifetime > 0 {
		g.Expires = asked.Add(lifetime) // counted from before: the server's clock began later
	}
	return g, nil
}

// parseLifetime reads expires_in, in seconds; some servers write it as a string.
// 0 is a server that does not say.
func parseLifetime(raw json.RawMessage) (time.Duration, error) {
	text := strings.Trim(string(raw), `"`)
	if text == "" || text == "null" {
		return 0, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds > 0) {
		return 0, errors.New("its expires_in is not a number of seconds")
	}
	return time.Duration(min(seconds, maxLifetime.Seconds())) * time.Second, nil
}

// ValidToken tells whether a token can be sent (RFC 6750 section 2.1, b64token).
func ValidToken(token string) bool {
	return token != "" && len(token) <= maxToken && !strings.ContainsFunc(token, func(r rune) bool {
		return r > 0x7f || !isAlphanumeric(byte(r)) && !strings.ContainsRune("-._~+/=", r)
	})
}
