package auth

import (
	"fmt"
	"slices"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// Report is what can be said of a token without asking anybody: which provider
// would be tried, what matches and what does not. It holds nothing of the token
// but public claims: issuer, audience, dates, type, algorithm, key id, scopes.
type Report struct {
	// Form is "jwt", "opaque" or "unusable".
	Form string `json:"form"`
	// Problem is why no provider will ever accept it, or "".
	Problem   string           `json:"problem,omitempty"`
	Providers []ProviderReport `json:"providers"`
}

// What comes of a token at one provider, as far as that can be told offline.
const (
	// Accepted: everything holds, the signature too.
	Accepted = "accepted"
	// Refused: something does not hold; no answer of the provider changes that.
	Refused = "refused"
	// Unproven: everything that can be checked here holds; the signature was not
	// checked, or the provider has to be asked.
	Unproven = "unproven"
	// NotTried: the token is none of this provider's.
	NotTried = "not tried"
)

// ProviderReport is what one provider would make of the token.
type ProviderReport struct {
	Provider string `json:"provider"`
	// Outcome is Accepted, Refused, Unproven or NotTried.
	Outcome string  `json:"outcome"`
	Checks  []Check `json:"checks,omitempty"`
	// Note says what remains to be asked online, or "".
	Note string `json:"note,omitempty"`
}

// Results of a Check.
const (
	OK         = "ok"
	Mismatch   = "mismatch"
	NotChecked = "not checked"
)

// Check is one rule and what it found.
type Check struct {
	Name   string `json:"name"`
	Result string `json:"result"` // OK, Mismatch or NotChecked
	// Expected and Got are the two values of the comparison, where there are two.
	Expected string `json:"expected,omitempty"`
	Got      string `json:"got,omitempty"`
	// Reason is a sentence, when it is not OK.
	Reason string `json:"reason,omitempty"`
}

// InspectOptions are what Inspect judges by. The zero value works.
type InspectOptions struct {
	// Leeway and Now are those of Options.
	Leeway time.Duration
	Now    func() time.Time
	// KeySets are JWK sets that the person has at hand, by provider name; with
	// one the signature is checked too.
	KeySets map[string][]byte
	// Scopes are those that the caller will need.
	Scopes []string
}

// Inspect judges a token by the rules of a Validator with the same providers,
// without any request.
func Inspect(token string, providers []Provider, opt InspectOptions) *Report {
	now := time.Now
	if opt.Now != nil {
		now = opt.Now
	}
	report := &Report{Form: "opaque"}
	if !wellFormed(token) {
		report.Form = "unusable"
		report.Problem = fmt.Sprintf("it is empty, longer than %d bytes, or has characters that no token has", maxToken)
		return report
	}
	t := parseToken(token)
	if t != nil {
		report.Form = "jwt"
		if t.fault != nil {
			report.Problem = (Attempt{Reason: t.fault.reason, Expected: t.fault.expected, Got: t.fault.got}).String()
		}
	}
	for i := range providers {
		p := &providers[i]
		var one ProviderReport
		if t == nil {
			one = inspectOpaque(p)
		} else {
			s := subject{claims: t.claims, provider: p, now: now(), leeway: leeway(opt.Leeway)}
			one = s.inspect(t, opt.KeySets[p.Name], opt.Scopes)
		}
		one.Provider = p.Name
		report.Providers = append(report.Providers, one)
	}
	return report
}

func inspectOpaque(p *Provider) ProviderReport {
	if p.IntrospectionURL == "" {
		return ProviderReport{Outcome: NotTried, Note: "the token is opaque and the provider has no introspectionUrl"}
	}
	return ProviderReport{Outcome: Unproven, Note: "the token is opaque: only " + p.IntrospectionURL + " can say"}
}

// inspect is the whole table for one provider.
func (s *subject) inspect(t *jwt, keys []byte, scopes []string) ProviderReport {
	issuer := s.outcome(claimRules[0])
	if t.issuer() != s.provider.IssuerURL {
		return ProviderReport{Outcome: NotTried, Checks: []Check{issuer}, Note: "the token names another issuer"}
	}
	one := ProviderReport{Outcome: Unproven}
	if t.fault != nil {
		one.Checks = append(one.Checks, Check{Name: "form", Result: Mismatch, Expected: t.fault.expected, Got: t.fault.got, Reason: t.fault.reason})
	} else {
		one.Checks = append(one.Checks,
			Check{Name: "algorithm", Result: OK, Expected: algorithmNames, Got: t.alg},
			Check{Name: "type", Result: OK, Expected: typeNames, Got: orNone(shorten(t.typ))})
	}
	for _, rule := range claimRules {
		one.Checks = append(one.Checks, s.outcome(rule))
	}
	one.Checks = append(one.Checks, inspectSignature(t, keys))
	if len(scopes) > 0 {
		one.Checks = append(one.Checks, inspectScopes(s.claims, scopes))
	}
	one.conclude(s.provider)
	return one
}

// conclude draws the outcome from the checks. Scopes do not make a token invalid:
// they decide on requests.
func (r *ProviderReport) conclude(p *Provider) {
	signed := false
	for _, c := range r.Checks {
		switch {
		case c.Result == Mismatch && c.Name != "scopes":
			r.Outcome = Refused
		case c.Name == "signature" && c.Result == OK:
			signed = true
		}
	}
	switch {
	case r.Outcome == Refused && p.IntrospectionURL != "":
		r.Outcome, r.Note = Unproven, "refused as a JWT; "+p.IntrospectionURL+" is asked after that"
	case r.Outcome == Unproven && signed:
		r.Outcome = Accepted
	case r.Outcome == Unproven:
		r.Note = "everything but the signature holds"
	}
}

// outcome is one rule on claims as a Check.
func (s *subject) outcome(rule claimRule) Check {
	c := Check{Name: rule.name, Result: OK, Got: rule.value(s)}
	if r := rule.check(s); r != nil {
		c.Result, c.Reason, c.Expected = Mismatch, r.reason, r.expected
		return c
	}
	switch rule.name {
	case "issuer":
		c.Expected = s.provider.IssuerURL
	case "audience":
		c.Expected = s.provider.Audience
	}
	return c
}

// inspectSignature checks the signature with keys, a JWK set, if there is one.
func inspectSignature(t *jwt, keys []byte) Check {
	c := Check{Name: "signature", Result: NotChecked, Got: "kid " + orNone(shorten(t.kid))}
	if t.fault != nil {
		c.Reason = "the token cannot be used whatever its signature"
		return c
	}
	if keys == nil {
		c.Reason = "offline: the provider's keys are not at hand"
		return c
	}
	set, _, err := decodeKeys(keys)
	if err != nil {
		c.Reason = "the key set cannot be used: " + err.Error()
		return c
	}
	found := []jose.JSONWebKey{}
	var ids []string
	for _, key := range set {
		ids = append(ids, orNone(key.KeyID))
		if t.kid == "" || key.KeyID == t.kid {
			found = append(found, key)
		}
	}
	if _, r := t.verify(found); r != nil {
		c.Result, c.Reason, c.Expected = Mismatch, r.reason, "kid "+shorten(strings.Join(ids, " "))
		return c
	}
	c.Result = OK
	return c
}

func inspectScopes(claims map[string]any, needed []string) Check {
	has := scopesOf(claims)
	c := Check{Name: "scopes", Result: OK, Expected: strings.Join(needed, " "), Got: orNone(shorten(strings.Join(has, " ")))}
	id := Identity{Scopes: has}
	for _, scope := range needed {
		if !id.HasScope(scope) {
			c.Result, c.Reason = Mismatch, "it lacks the scope "+scope
			return c
		}
	}
	return c
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// String is the report for people: one line for each provider and check.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "form: %s\n", r.Form)
	if r.Problem != "" {
		fmt.Fprintf(&b, "problem: %s\n", r.Problem)
	}
	for _, p := range r.Providers {
		fmt.Fprintf(&b, "provider %s: %s", p.Provider, p.Outcome)
		if p.Note != "" {
			fmt.Fprintf(&b, " (%s)", p.Note)
		}
		b.WriteByte('\n')
		for _, c := range p.Checks {
			fmt.Fprintf(&b, "  %-10s %-11s", c.Name, c.Result)
			if c.Expected != "" {
				fmt.Fprintf(&b, " expected %q,", c.Expected)
			}
			if c.Got != "" {
				fmt.Fprintf(&b, " got %q", c.Got)
			}
			if c.Reason != "" {
				fmt.Fprintf(&b, ": %s", c.Reason)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Possible says whether some provider may accept the token: false when all refuse
// it or do not try it.
func (r *Report) Possible() bool {
	return slices.ContainsFunc(r.Providers, func(p ProviderReport) bool {
		return p.Outcome == Accepted || p.Outcome == Unproven
	})
}
