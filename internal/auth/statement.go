package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Statement returns the claims of a software statement of the issuer (RFC 7591 section 2.3),
// numbers as json.Number. A statement that names audiences is for one that audience is among;
// a token of a client or a person has another one. The errors are those of [IDTokens.Verify].
func (v *IDTokens) Statement(ctx context.Context, token, audience string) (map[string]any, error) {
	if !wellFormed(token) {
		return nil, errors.New("the software statement has characters that no token has, or is too long")
	}
	t := parseToken(token)
	if t == nil {
		return nil, errors.New("the software statement is not a JWT")
	}
	r := t.fault
	if r == nil && strings.TrimPrefix(strings.ToLower(t.typ), "application/") == "at+jwt" { // RFC 9068 section 2.1
		r = &refusal{reason: "it is a token of another type", expected: "JWT or none", got: shorten(t.typ)}
	}
	if r == nil {
		r = v.signature(ctx, t)
	}
	if r == nil {
		r = v.statement(t, audience)
	}
	switch {
	case r == nil:
		return t.claims, nil
	case r.unavailable:
		return nil, fmt.Errorf("%w: %s", ErrKeys, r.reason)
	}
	return nil, errors.New("the software statement is not valid: " + Attempt{Reason: r.reason, Expected: r.expected, Got: r.got}.String())
}

// statement checks the claims. All but iss are optional (RFC 7591 section 2.3, RFC 7519
// section 4.1).
func (v *IDTokens) statement(t *jwt, audience string) *refusal {
	rules := v.rules
	rules.Audience = audience
	s := &subject{claims: t.claims, provider: &rules, now: v.now(), leeway: DefaultLeeway}
	checks := []func(*subject) *refusal{checkIssuer, checkStart("nbf"), checkStart("iat")}
	if _, present := t.claims["aud"]; present {
		checks = append(checks, checkAudience)
	}
	if _, present := t.claims["exp"]; present {
		checks = append(checks, checkExpiry)
	}
	for _, check := range checks {
		if r := check(s); r != nil {
			return r
		}
	}
	return nil
}
