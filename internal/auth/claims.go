package auth

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The rules on claims, the same for every token of a provider, and for what its
// introspection endpoint says.

// subject is claims with what they are judged by.
type subject struct {
	claims   map[string]any
	provider *Provider
	now      time.Time
	// leeway is granted to clocks. For an introspected token the provider's own
	// clock has spoken already: exp gets none.
	leeway       time.Duration
	introspected bool
}

// claimRule is one of the rules. value is what the claims say, in words.
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

// check applies all rules and says when the token ends; the zero time when that
// is not known.
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
	if iss, isText := v.(string); isText && iss == s.provider.IssuerURL || !present && s.introspected {
		return nil
	}
	return &refusal{reason: "the issuer does not match", expected: s.provider.IssuerURL, got: wordsOf(v)}
}

// checkAudience: one of aud is the provider's audience (RFC 7519 section 4.1.3).
// Without one, a token for anybody else would be good here too (RFC 8725 section
// 3.9, RFC 7662 section 4).
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

// checkSubject: who decides by the subject must not meet one that is no text (RFC
// 7519 section 4.1.2).
func checkSubject(s *subject) *refusal {
	if v, present := s.claims["sub"]; present {
		if _, isText := v.(string); !isText {
			return refuse("its subject is not text")
		}
	}
	return nil
}

// checkUse: a refresh or ID token must not pass for an access token (RFC 6749
// section 1.5, RFC 8725 section 3.11). No standard claim tells them apart, and
// introspection calls a refresh token active too (RFC 7662 section 2.1). What
// providers say of their own accord counts: token_use (Dex, Hydra, Cognito) must
// be that of an access token, typ among the claims (Keycloak) none of another's.
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

// useOf puts what the claims say of the token's use into words.
func useOf(claims map[string]any) string {
	if v, present := claims["token_use"]; present {
		return wordsOf(v)
	}
	return wordsOf(claims["typ"])
}

// maxDate is where seconds stop meaning a date: the year 9999.
const maxDate = 253402300799

// timeOf reads a NumericDate (RFC 7519 section 2), which may have a fraction.
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

// wordsOf puts a claim into words for a message, shortened.
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
		// Not more is shown than fits, however long the list is.
		return shorten(strings.Join(texts[:min(len(texts), 20)], " "))
	}
	return "not text"
}

// dateOf puts a date of the claims into words.
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
