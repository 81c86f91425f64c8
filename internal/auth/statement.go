package auth

import "context"

// Statement returns the claims of a software statement of the issuer (RFC 7591 section 2.3),
// numbers as json.Number. A statement that names audiences is for one that audience is among;
// a token of a client or a person has another one. The errors are those of [IDTokens.Verify].
func (v *IDTokens) Statement(ctx context.Context, token, audience string) (map[string]any, error) {
	return v.verify(ctx, "software statement", token, func(t *jwt) *refusal {
		// All claims but iss are optional (RFC 7519 section 4.1).
		checks := []func(*subject) *refusal{checkIssuer, checkStart("nbf"), checkStart("iat")}
		if _, present := t.claims["aud"]; present {
			checks = append(checks, checkAudience)
		}
		if _, present := t.claims["exp"]; present {
			checks = append(checks, checkExpiry)
		}
		return v.check(t, audience, checks...)
	})
}
