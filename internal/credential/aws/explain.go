package aws

import (
	"github.com/toolhaven/toolhaven/internal/externalauth"
)

// Explanation is what a caller with certain claims would be at AWS, and why.
type Explanation struct {
	Region, Service string
	// Mappings are in the order of evaluation.
	Mappings []Evaluation
	// Role is the ARN of the role; "" for none. Used is the position in roleMappings of the
	// mapping that determined it, -1 for none: then it is the fallback.
	Role string
	Used int
	// Session is the name of the session, made of the claim SessionClaim; "" with Problem.
	Session, SessionClaim string
	// Problem is why a request of this caller is not sent; "" if it is.
	Problem string
}

// Evaluation is the outcome of one mapping for a caller.
type Evaluation struct {
	// Index is the position in roleMappings.
	Index   int
	Mapping externalauth.RoleMapping
	Matched bool
	// Condition is the test, as an expression. Reason is why it matched or did not, in plain
	// text. Both may contain names and values of claims.
	Condition, Reason string
}

// Explain returns what a [Credential] would do for a caller with the claims. It sends no
// request. Its error is that of [Compile].
func Explain(spec *externalauth.AWSSTS, claims map[string]any) (*Explanation, error) {
	roles, err := Compile(spec)
	if err != nil {
		return nil, err
	}
	s := withDefaults(spec)
	x := &Explanation{
		Region: s.Region, Service: s.Service, SessionClaim: s.SessionNameClaim,
		Mappings: roles.explain(claims), Role: s.FallbackRoleARN, Used: -1,
	}
	for _, e := range x.Mappings {
		if e.Matched {
			x.Role, x.Used = e.Mapping.RoleARN, e.Index
			break
		}
	}
	if x.Role == "" {
		x.Problem = "no mapping matched, and there is no fallbackRoleArn"
		return x, nil
	}
	if x.Session, err = sessionName(s.SessionNameClaim, claims); err != nil {
		x.Problem = "the session has no name: " + err.Error()
	}
	return x, nil
}

// explain returns the evaluations of all mappings in their order.
func (r *Roles) explain(claims map[string]any) []Evaluation {
	all := make([]Evaluation, len(r.mappings))
	for i, m := range r.mappings {
		matched, reason := m.evaluate(r.claim, claims)
		all[i] = Evaluation{Index: m.index, Mapping: m.RoleMapping, Matched: matched, Condition: m.condition(r.claim), Reason: reason()}
	}
	return all
}
