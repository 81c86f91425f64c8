package auth

import (
	"context"
	"crypto"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/toolhaven/toolhaven/internal/oauth"
)

// ErrKeys: the keys of the issuer cannot be fetched now.
var ErrKeys = errors.New("the keys of the issuer cannot be fetched")

// IDTokenConfig is what ID tokens are verified against.
type IDTokenConfig struct {
	// Issuer equals iss byte for byte. ClientID is among aud.
	Issuer, ClientID string
	// KeysURL returns the issuer's jwks_uri, and Get fetches it. Both are called when a
	// token needs keys that are not held, or not fresh.
	KeysURL func(context.Context) (string, error)
	Get     oauth.Get
	Log     *slog.Logger     // nil is none
	Now     func() time.Time // nil is time.Now
}

// IDTokens verifies ID tokens of one issuer for one client (OpenID Connect Core 1.0 section
// 3.1.3.7). It may be used concurrently. It fetches keys at a bounded rate, and nothing in
// the background.
type IDTokens struct {
	issuer, client string
	keys           *keySet
	now            func() time.Time
}

// NewIDTokens returns an IDTokens. It sends no request.
func NewIDTokens(c IDTokenConfig) *IDTokens {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	v := &IDTokens{issuer: c.Issuer, client: c.ClientID, keys: newKeySet(), now: c.Now}
	v.keys.now, v.keys.log, v.keys.tasks, v.keys.observe = c.Now, c.Log, newTasks(), func(string) {}
	v.keys.fetch = func(ctx context.Context) ([]jose.JSONWebKey, error) {
		from, err := c.KeysURL(ctx)
		if err != nil {
			return nil, err
		}
		resp, err := c.Get(ctx, from)
		if err != nil {
			return nil, err
		}
		if resp.Status != 200 {
			return nil, fmt.Errorf("%s: it answers %d", from, resp.Status)
		}
		keys, _, err := decodeKeys(resp.Body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		return keys, nil
	}
	return v
}

// Verify returns the claims of an ID token, numbers as json.Number. The token was received
// with accessToken; "" is without one. The caller checks nonce. An error that is no
// [ErrKeys] means that the token is not valid. Errors do not quote the token.
func (v *IDTokens) Verify(ctx context.Context, token, accessToken string) (map[string]any, error) {
	return v.verify(ctx, "ID token", token, func(t *jwt) *refusal { return v.claims(t, accessToken) })
}

// verify returns the claims of a JWT of the issuer that is no access token, after the rules
// for its claims. kind is its name in errors.
func (v *IDTokens) verify(ctx context.Context, kind, token string, rules func(*jwt) *refusal) (map[string]any, error) {
	if !wellFormed(token) {
		return nil, fmt.Errorf("the %s has characters that no token has, or is too long", kind)
	}
	t := parseToken(token)
	if t == nil {
		return nil, fmt.Errorf("the %s is not a JWT", kind)
	}
	r := t.fault
	if r == nil && strings.TrimPrefix(strings.ToLower(t.typ), "application/") == "at+jwt" { // RFC 9068 section 2.1
		r = &refusal{reason: "it is a token of another type", expected: "JWT or none", got: shorten(t.typ)}
	}
	if r == nil {
		r = v.signature(ctx, t)
	}
	if r == nil {
		r = rules(t)
	}
	switch {
	case r == nil:
		return t.claims, nil
	case r.unavailable:
		return nil, fmt.Errorf("%w: %s", ErrKeys, r.reason)
	}
	return nil, fmt.Errorf("the %s is not valid: %s", kind, Attempt{Reason: r.reason, Expected: r.expected, Got: r.got})
}

// signature verifies the signature by the issuer's keys. It fetches them again where the
// result may differ with newer keys.
func (v *IDTokens) signature(ctx context.Context, t *jwt) *refusal {
	if held, usable := v.keys.at(v.now()); usable && v.now().Sub(held.fetched) >= keysFresh {
		// If this fails, the held keys are used.
		_ = v.keys.wait(ctx, func() bool { return v.now().Sub(v.keys.tried) >= keysRetryMax })
	}
	_, r, more := v.keys.verifyHeld(t)
	if r == nil || more == nil {
		return r
	}
	err := more(ctx)
	if _, again, _ := v.keys.verifyHeld(t); again == nil || err == nil {
		return again
	}
	if r.unavailable || r.unknownKey {
		return unavailable("%v", err)
	}
	return r
}

// claims applies the rules of OpenID Connect Core 1.0 sections 2 and 3.1.3.7.
func (v *IDTokens) claims(t *jwt, accessToken string) *refusal {
	r := v.check(t, v.client, checkIssuer, checkAudience, checkParty, checkExpiry, checkStart("nbf"), checkStart("iat"), checkPerson)
	if r != nil {
		return r
	}
	return checkAccessHash(t, accessToken)
}

// check applies checks of claims in their order.
func (v *IDTokens) check(t *jwt, audience string, checks ...func(*subject) *refusal) *refusal {
	s := &subject{claims: t.claims, provider: &Provider{IssuerURL: v.issuer, Audience: audience}, now: v.now(), leeway: DefaultLeeway}
	for _, check := range checks {
		if r := check(s); r != nil {
			return r
		}
	}
	return nil
}

// checkParty: azp, if present, is the client; it is required where there are several
// audiences (items 3 to 5).
func checkParty(s *subject) *refusal {
	azp, present := s.claims["azp"]
	audiences, _ := textsOf(s.claims["aud"])
	if !present && len(audiences) == 1 || present && azp == s.provider.Audience {
		return nil
	}
	return &refusal{reason: "it was issued to another client (azp)", expected: s.provider.Audience, got: wordsOf(azp)}
}

// maxSubject bounds sub, in bytes (section 2: 255 ASCII characters).
const maxSubject = 255

// checkPerson: iat and sub are required (section 2).
func checkPerson(s *subject) *refusal {
	if _, present := s.claims["iat"]; !present {
		return refuse("it has no iat")
	}
	sub, _ := s.claims["sub"].(string)
	if sub == "" || len(sub) > maxSubject {
		return refuse("it has no subject, or one of more than %d bytes", maxSubject)
	}
	return nil
}

// checkAccessHash: at_hash, if present, is that of the access token (section 3.1.3.8).
func checkAccessHash(t *jwt, accessToken string) *refusal {
	want, present := t.claims["at_hash"]
	if !present || accessToken == "" {
		return nil
	}
	hash := crypto.SHA512 // also of Ed25519 (RFC 8032)
	switch strings.TrimLeft(t.alg, "RPES") {
	case "256":
		hash = crypto.SHA256
	case "384":
		hash = crypto.SHA384
	}
	h := hash.New()
	h.Write([]byte(accessToken))
	sum := h.Sum(nil)
	got := base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
	if text, _ := want.(string); subtle.ConstantTimeCompare([]byte(text), []byte(got)) != 1 {
		return refuse("its at_hash is not that of the access token")
	}
	return nil
}
