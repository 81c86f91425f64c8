package api

import (
	"slices"

	"github.com/toolhaven/toolhaven/internal/auth"
)

// Action is what a route does.
type Action string

// The actions.
const (
	ActionRead  Action = "read"
	ActionWrite Action = "write"
)

// Rules allow; what none of them allows is refused.
type Rules []Rule

// Rule allows actions on registries to callers with all the scopes and, for each
// claim, one of the values.
type Rule struct {
	Actions    []Action
	Registries []string // empty: all
	Scopes     []string
	Claims     map[string][]string
}

// Allow decides. When only a scope is missing, it is returned. A path that belongs
// to no registry (registry "") may be read by a caller that may read any.
func (rules Rules) Allow(id *auth.Identity, action Action, registry string) (missingScope string, ok bool) {
	for _, rule := range rules {
		if !slices.Contains(rule.Actions, action) || registry != "" && len(rule.Registries) > 0 && !slices.Contains(rule.Registries, registry) {
			continue
		}
		if !rule.claimsMatch(id) {
			continue
		}
		missing := ""
		for _, s := range rule.Scopes {
			if !id.HasScope(s) {
				missing = s
				break
			}
		}
		if missing == "" {
			return "", true
		}
		if missingScope == "" {
			missingScope = missing
		}
	}
	return missingScope, false
}

func (rule Rule) claimsMatch(id *auth.Identity) bool {
	for claim, values := range rule.Claims {
		if !slices.ContainsFunc(claimValues(id.Claims[claim]), func(v string) bool { return slices.Contains(values, v) }) {
			return false
		}
	}
	return true
}

// claimValues are the texts of a claim that is a text or a list of texts; no
// other type matches anything.
func claimValues(claim any) []string {
	switch v := claim.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// Claims are the names of all claims that the rules look at.
func (rules Rules) Claims() []string {
	var out []string
	for _, rule := range rules {
		for claim := range rule.Claims {
			if !slices.Contains(out, claim) {
				out = append(out, claim)
			}
		}
	}
	slices.Sort(out)
	return out
}
