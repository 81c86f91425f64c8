package aws

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/toolhaven/toolhaven/internal/externalauth"
)

// Roles chooses the role of a caller by claims: the mapping of the lowest priority that
// matches, and of several the first in the configuration; without one the fallback.
type Roles struct {
	claim    string // RoleClaim
	fallback string
	mappings []mapping // in the order of evaluation
}

type mapping struct {
	externalauth.RoleMapping

	index   int
	matcher *matcher // nil for a mapping by Claim
}

// Validate returns what is wrong with a resource, as [externalauth.Faults]: everything about its
// fields, or about its matchers if the fields are valid. It is the check of all that read one.
func Validate(s *externalauth.Spec) error {
	if err := s.Validate(); err != nil || s.AWSSTS == nil {
		return err
	}
	_, err := Compile(s.AWSSTS)
	return err
}

// Compile returns the Roles of a valid spec. Its error is [externalauth.Faults]: matchers that
// are no boolean expressions.
func Compile(spec *externalauth.AWSSTS) (*Roles, error) {
	var faults externalauth.Faults
	fault := func(index int, format string, args ...any) {
		faults = append(faults, externalauth.Fault{
			Field: fmt.Sprintf("spec.awsSts.roleMappings[%d].matcher", index), Message: fmt.Sprintf(format, args...),
		})
	}
	roles := &Roles{claim: withDefaults(spec).RoleClaim, fallback: spec.FallbackRoleARN}
	for i, m := range spec.RoleMappings {
		compiled := mapping{RoleMapping: m, index: i}
		if m.Matcher != "" {
			var err error
			if compiled.matcher, err = compileMatcher(m.Matcher); err != nil {
				fault(i, "%s", err)
				continue
			}
		}
		roles.mappings = append(roles.mappings, compiled)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	slices.SortStableFunc(roles.mappings, func(a, b mapping) int { return cmp.Compare(rank(a), rank(b)) })
	return roles, nil
}

// rank is the priority; a mapping without one is the last.
func rank(m mapping) int64 {
	if m.Priority == nil {
		return math.MaxInt64
	}
	return int64(*m.Priority)
}

// Choose returns the ARN of the role for a caller with the claims; "" for none.
func (r *Roles) Choose(claims map[string]any) string {
	for _, m := range r.mappings {
		if matched, _ := m.evaluate(r.claim, claims); matched {
			return m.RoleARN
		}
	}
	return r.fallback
}

// evaluate reports whether m matches. reason is called only where it is shown. An evaluation
// that fails is no match.
func (m *mapping) evaluate(roleClaim string, claims map[string]any) (matched bool, reason func() string) {
	if m.matcher == nil {
		return member(m.Claim, roleClaim, claims)
	}
	matched, err := m.matcher.evaluate(claims)
	return matched, func() string {
		switch {
		case err != nil:
			return "the expression fails: " + err.Error()
		case matched:
			return "the expression is true"
		}
		return "the expression is false"
	}
}

// member is the test `value in claims[claim]` of CEL: an element of a list, or a key of an
// object. For any other claim it does not match, as that expression fails.
func member(value, claim string, claims map[string]any) (matched bool, reason func() string) {
	text := func(format string, args ...any) func() string {
		return func() string { return fmt.Sprintf(format, args...) }
	}
	switch v := claims[claim].(type) {
	case nil:
		return false, text("there is no claim %q", claim)
	case []any:
		for _, element := range v {
			if s, ok := element.(string); ok && s == value {
				return true, text("the claim %q has %q", claim, value)
			}
		}
	case map[string]any:
		if _, found := v[value]; found {
			return true, text("the claim %q has %q", claim, value)
		}
	default:
		return false, text("the claim %q is neither a list nor an object; compare it by a matcher", claim)
	}
	return false, text("the claim %q does not have %q", claim, value)
}

// condition is the test of m as an expression.
func (m *mapping) condition(roleClaim string) string {
	if m.matcher != nil {
		return m.Matcher
	}
	return fmt.Sprintf("%q in claims[%q]", m.Claim, roleClaim)
}
