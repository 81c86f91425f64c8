package auth

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The rules on claims are the same for JWTs and for introspection responses.

// subject is claims, and what they are checked against.
type subject struct {
	claims   map[string]any
	provider *Provider
	now      time.Time
	// leeway is for clock skew. It does not apply to exp of an introspected token,
	// which the provider checked with its own clock.
	leeway       time.Duration
	introspected bool
}

// claimRule is one of the rules. value is the claim as text.
type claimRule struct {
	name  string
	check func(*subject) *refusal
	value func(*subject) string
}

var claimRules = [...]claimRule{
	{"issuer", checkIssuer, func(s *subject) string { return wordsOf(s.claims["iss"]) }},
	{"audience", checkAudience, func(s *subject) string { return wordsOf(s.claims["aud"]) }},
	{"expiry", checkExpiry, func(s *subject) string { return dateOf(s.claims, "exp") }},
	{"not before", checkStart("nbf"), func(s *subject) string { return dateOf(s.claims, "nbf") }},
	{"issued", checkStart("iat"), func(s *subject) string { return dateOf(s.claims, "iat") }},
	{"subject", checkSubject, func(s *subject) string { return wordsOf(s.claims["sub"]) }},
	{"use", checkUse, func(s *subject) string { return useOf(s.claims) }},
}

// check applies all rules and returns the expiry; the zero time when unknown.
func (s *subject) check() (expires time.Time, r *refusal) {
	for i := range claimRules {
		if r := claimRules[i].check(s); r != nil {
			return expires, r
		}
	}
	expires, _, _ = timeOf(s.claims, "exp")
	return expires, nil
}

// checkIssuer: equal byte for byte (RFC 7519 section 4.1.1, RFC 9068 section 4).
// An introspection answer may leave it out: it comes from the provider itself
// (RFC 7662 section 2.2).
func checkIssuer(s *subject) *refusal {
	v, present := s.claims["iss"]
	iss, isText := v.(string)
	vouched := s.introspected && (!present || isText && s.provider.IssuerURL == "")
	if isText && iss == s.provider.IssuerURL && iss != "" || vouched {
		return nil
	}
	return &refusal{reason: "the issuer does not match", expected: s.provider.IssuerURL, got: wordsOf(v)}
}

// checkAudience: one of aud is the provider's audience (RFC 7519 section 4.1.3).
// Otherwise tokens for other resources would be accepted here (RFC 8725 section 3.9,
// RFC 7662 section 4).
func checkAudience(s *subject) *refusal {
	if audiences, ok := textsOf(s.claims["aud"]); ok && slices.Contains(audiences, s.provider.Audience) {
		return nil
	}
	return &refusal{reason: "the audience does not match", expected: s.provider.Audience, got: wordsOf(s.claims["aud"])}
}

// checkExpiry: exp is in the future (RFC 7519 section 4.1.4). A JWT must have one
// (RFC 9068 section 2.2); an introspection answer may not (RFC 7662 section 2.2).
func checkExpiry(s *subject) *refusal {
	leeway := s.leeway
	if s.introspected {
		leeway = 0
	}
	exp, present, ok := timeOf(s.claims, "exp")
	switch {
	case !ok || !present && !s.introspected:
		return refuse("it has no expiry that can be read")
	case present && !s.now.Before(exp.Add(leeway)):
		return &refusal{reason: "it has expired", expected: "after " + s.now.UTC().Format(time.RFC3339), got: exp.UTC().Format(time.RFC3339)}
	}
	return nil
}

// checkStart: nbf and iat, where present, are not in the future (RFC 7519
// sections 4.1.5, 4.1.6).
func checkStart(name string) func(*subject) *refusal {
	return func(s *subject) *refusal {
		t, present, ok := timeOf(s.claims, name)
		switch {
		case !ok:
			return refuse("its %s cannot be read", name)
		case present && s.now.Add(s.leeway).Before(t):
			return &refusal{reason: "it is not valid yet (" + name + ")", expected: "not after " + s.now.UTC().Format(time.RFC3339), got: t.UTC().Format(time.RFC3339)}
		}
		return nil
	}
}

// checkSubject: sub is text, where present (RFC 7519 section 4.1.2).
func checkSubject(s *subject) *refusal {
	if v, present := s.claims["sub"]; present {
		if _, isText := v.(string); !isText {
			return refuse("its subject is not text")
		}
	}
	return nil
}

// checkUse: a refresh or ID token must not pass for an access token (RFC 6749
// section 1.5, RFC 8725 section 3.11). No standard claim distinguishes them, and
// introspection reports refresh tokens as active too (RFC 7662 section 2.1). The
// claims of providers do: token_use (Dex, Hydra, Cognito) must be that of an access
// token, and typ (Keycloak) must not be that of another token.
func checkUse(s *subject) *refusal {
	wrong := false
	if v, present := s.claims["token_use"]; present {
		wrong = v != "access_token" && v != "access"
	}
	if typ, _ := s.claims["typ"].(string); typ != "" {
		switch strings.ToLower(typ) {
		case "id", "refresh", "offline", "logout":
			wrong = true
		}
	}
	if wrong {
		return &refusal{reason: "it is a token for another use", expected: "access", got: useOf(s.claims)}
	}
	return nil
}

// useOf is the use of the token, as text.
func useOf(claims map[string]any) string {
	if v, present := claims["token_use"]; present {
		return wordsOf(v)
	}
	return wordsOf(claims["typ"])
}

// maxDate is the last accepted date: the end of the year 9999.
const maxDate = 253402300799

// timeOf parses a NumericDate (RFC 7519 section 2), which may have a fraction.
func timeOf(claims map[string]any, name string) (t time.Time, present, ok bool) {
	v, present := claims[name]
	if !present {
		return t, false, true
	}
	n, isNumber := v.(json.Number)
	if !isNumber {
		return t, true, false
	}
	if seconds, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return time.Unix(seconds, 0), true, seconds >= 0 && seconds <= maxDate
	}
	f, err := n.Float64()
	if err != nil || f < 0 || f > maxDate {
		return t, true, false
	}
	return time.Unix(int64(f), 0), true, true
}

// textsOf is a claim that is a string or an array of strings; an array of
// anything else is neither.
func textsOf(v any) ([]string, bool) {
	switch v := v.(type) {
	case string:
		return []string{v}, true
	case []any:
		out := make([]string, len(v))
		for i, e := range v {
			s, isText := e.(string)
			if !isText {
				return nil, false
			}
			out[i] = s
		}
		return out, true
	}
	return nil, false
}

// scopesOf reads scope (RFC 8693 section 4.2, a string with blanks) or scp, the
// spelling of some providers (a string or an array).
func scopesOf(claims map[string]any) []string {
	for _, name := range []string{"scope", "scp"} {
		if s, ok := claims[name].(string); ok {
			return strings.Fields(s)
		}
		if list, ok := textsOf(claims[name]); ok && len(list) > 0 {
			return list
		}
	}
	return nil
}

// wordsOf is a claim as text for a message, shortened.
func wordsOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case string:
		return shorten(v)
	case []any:
		texts, ok := textsOf(v)
		if !ok {
			return "a list of things that are not text"
		}
		// A bounded part of the list.
		return shorten(strings.Join(texts[:min(len(texts), 20)], " "))
	}
	return "not text"
}

// dateOf is a date of the claims as text.
func dateOf(claims map[string]any, name string) string {
	t, present, ok := timeOf(claims, name)
	switch {
	case !present:
		return "none"
	case !ok:
		return "not a date"
	}
	return t.UTC().Format(time.RFC3339)
}
