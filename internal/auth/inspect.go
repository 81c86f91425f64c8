package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Report is the result of checking a token without any request: for each provider
// which checks succeed and which fail. It holds nothing of the token but public
// claims: issuer, audience, dates, type, algorithm, key id.
type Report struct {
	// Form is "jwt", "opaque" or "unusable".
	Form string `json:"form"`
	// Problem is why every provider rejects the token, or "".
	Problem   string           `json:"problem,omitempty"`
	Providers []ProviderReport `json:"providers"`
}

// Outcomes of a token at one provider, as far as they can be determined offline.
const (
	// Refused: a check fails; no response of the provider changes that.
	Refused = "refused"
	// Unproven: all offline checks succeed; the signature, or the introspection
	// endpoint, decides.
	Unproven = "unproven"
	// NotTried: the token was issued by another provider.
	NotTried = "not tried"
)

// ProviderReport is the outcome of a token at one provider.
type ProviderReport struct {
	Provider string `json:"provider"`
	// Outcome is Refused, Unproven or NotTried.
	Outcome string  `json:"outcome"`
	Checks  []Check `json:"checks,omitempty"`
	// Note is what remains to be checked online, or "".
	Note string `json:"note,omitempty"`
}

// Results of a Check.
const (
	OK         = "ok"
	Mismatch   = "mismatch"
	NotChecked = "not checked"
)

// Check is one rule and its result.
type Check struct {
	Name   string `json:"name"`
	Result string `json:"result"` // OK, Mismatch or NotChecked
	// Expected and Got are the two values of the comparison, where there are two.
	Expected string `json:"expected,omitempty"`
	Got      string `json:"got,omitempty"`
	// Reason is a sentence, unless Result is OK.
	Reason string `json:"reason,omitempty"`
}

// UnverifiedClaims returns the claims of a JWT, numbers as json.Number. Nothing is verified,
// so they decide nothing: they are for explanations. The error does not repeat the token.
func UnverifiedClaims(token string) (map[string]any, error) {
	t := parseToken(token)
	if t == nil {
		return nil, errors.New("the token is not a JWT")
	}
	if t.fault != nil {
		return nil, t.fault
	}
	return t.claims, nil
}

// UnverifiedSubject returns the iss and sub of an access token that is a JWT by RFC 9068, whose
// sub is its person (section 2.2); "" for any other token, and for one of a client alone. As
// nothing is verified, the token must come from its issuer itself.
func UnverifiedSubject(token string) (issuer, subject string) {
	t := parseToken(token)
	if t == nil || t.fault != nil || strings.TrimPrefix(strings.ToLower(t.typ), "application/") != "at+jwt" {
		return "", ""
	}
	issuer, _ = t.claims["iss"].(string)
	subject, _ = t.claims["sub"].(string)
	if client, _ := t.claims["client_id"].(string); issuer == "" || subject == client {
		return "", ""
	}
	return issuer, subject
}

// Inspect checks a token by the rules of a Validator with the same providers and
// leeway (see Options), without any request.
func Inspect(token string, providers []Provider, clockLeeway time.Duration) *Report {
	return inspect(token, providers, clockLeeway, time.Now())
}

func inspect(token string, providers []Provider, clockLeeway time.Duration, now time.Time) *Report {
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
			s := subject{claims: t.claims, provider: p, now: now, leeway: leeway(clockLeeway)}
			one = s.inspect(t)
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
	return ProviderReport{Outcome: Unproven, Note: "the token is opaque: " + p.IntrospectionURL + " decides"}
}

// inspect applies all rules of one provider.
func (s *subject) inspect(t *jwt) ProviderReport {
	issuer := s.outcome(claimRules[0])
	if t.issuer() != s.provider.IssuerURL {
		return ProviderReport{Outcome: NotTried, Checks: []Check{issuer}, Note: "the token names another issuer"}
	}
	one := ProviderReport{Outcome: Unproven}
	signature := Check{Name: "signature", Result: NotChecked, Got: "kid " + orNone(shorten(t.kid)), Reason: "offline: the provider's keys are not available"}
	if t.fault != nil {
		one.Checks = append(one.Checks, Check{Name: "form", Result: Mismatch, Expected: t.fault.expected, Got: t.fault.got, Reason: t.fault.reason})
		signature.Reason = "the token cannot be used whatever its signature"
	} else {
		one.Checks = append(one.Checks,
			Check{Name: "algorithm", Result: OK, Expected: algorithmNames, Got: t.alg},
			Check{Name: "type", Result: OK, Expected: typeNames, Got: orNone(shorten(t.typ))})
	}
	for _, rule := range claimRules {
		one.Checks = append(one.Checks, s.outcome(rule))
	}
	one.Checks = append(one.Checks, signature)
	one.conclude(s.provider)
	return one
}

// conclude derives the outcome from the checks.
func (r *ProviderReport) conclude(p *Provider) {
	failed := slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Result == Mismatch })
	switch {
	case failed && p.IntrospectionURL != "":
		r.Note = "refused as a JWT; " + p.IntrospectionURL + " decides"
	case failed:
		r.Outcome = Refused
	default:
		r.Note = "everything but the signature holds"
	}
}

// outcome is the result of one rule on claims.
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

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// String is the report as text: one line for each provider and check.
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

// Possible reports whether at least one provider may accept the token.
func (r *Report) Possible() bool {
	return slices.ContainsFunc(r.Providers, func(p ProviderReport) bool {
		return p.Outcome == Unproven
	})
}
