package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Anonymous is the subject of the principal when callers have no tokens.
const Anonymous = "anonymous"

// Request is what one decision is about.
type Request struct {
	// Action is one of the actions of this package.
	Action string
	// Name is the tool's or the prompt's name, or the resource's URI.
	Name string
	// Arguments is the JSON object of a call's arguments; nil for none.
	Arguments json.RawMessage
	// Hints are the tool's annotations; nil are the defaults.
	Hints *Hints
}

// Decision is the outcome, and why.
type Decision struct {
	Allow bool `json:"allow"`
	// Policies are those that decided: the forbidding ones, or else the permitting ones.
	Policies []Reason `json:"policies,omitempty"`
	// Errors are policies that could not be evaluated, and so did not apply (Cedar,
	// Authorization), such as for an attribute that is missing.
	Errors []Reason `json:"errors,omitempty"`
}

// Reason is one policy of a [Decision].
type Reason struct {
	Policy string `json:"policy"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Error  string `json:"error,omitempty"`
}

// principal is the caller of a request, as policies see it. It is computed once for all
// decisions on the request.
type principal struct {
	entity  types.Entity
	claims  types.RecordMap
	context types.Record // of a request without arguments
}

// principalOf returns the principal of a caller; nil is the anonymous caller.
func (p *Policy) principalOf(caller *exchange.Caller) *principal {
	if caller == nil {
		caller = &exchange.Caller{Subject: Anonymous}
	}
	out := &principal{claims: types.RecordMap{}}
	if p.usesClaims {
		for name, value := range caller.Claims {
			if v := p.claim(name, value); v != nil {
				out.claims[types.String("claim_"+name)] = v
			}
		}
	}
	var groups []types.EntityUID
	for _, name := range []string{p.cfg.GroupClaim, p.cfg.RoleClaim} {
		if name == "" {
			continue
		}
		for _, group := range texts(caller.Claims[name]) {
			groups = append(groups, types.NewEntityUID(types.EntityType(p.cfg.GroupType), types.String(group)))
		}
	}
	uid := types.NewEntityUID("Client", types.String(caller.Subject))
	out.context = types.NewRecord(out.claims)
	out.entity = types.Entity{UID: uid, Parents: types.NewEntityUIDSet(groups...), Attributes: out.context}
	if given, ok := p.entities[uid]; ok { // of entities_json
		out.entity = merge(given, out.entity)
	}
	return out
}

// merge adds the parents and attributes of a given entity to those of the request, which
// prevail.
func merge(given, own types.Entity) types.Entity {
	attributes := types.RecordMap{}
	maps.Copy(attributes, given.Attributes.Map())
	for name, value := range own.Attributes.All() {
		attributes[name] = value
	}
	parents := append(own.Parents.Slice(), given.Parents.Slice()...)
	return types.Entity{UID: own.UID, Parents: types.NewEntityUIDSet(parents...), Attributes: types.NewRecord(attributes), Tags: given.Tags}
}

// Decide returns the decision on a request of a caller; nil is the anonymous caller. The
// error is an *mcp.Error for arguments that cannot be read.
func (p *Policy) Decide(caller *exchange.Caller, r Request) (Decision, error) {
	return p.decide(p.principalOf(caller), r)
}

func (p *Policy) decide(who *principal, r Request) (Decision, error) {
	var args types.RecordMap
	if p.usesArguments && len(r.Arguments) > 0 {
		var err error
		if args, err = arguments(r.Arguments); err != nil {
			return Decision{}, err
		}
	}
	e := p.evaluation(who, r.Action)
	if len(args) > 0 {
		both := maps.Clone(who.claims)
		maps.Copy(both, args)
		e.request.Context = types.NewRecord(both)
	}
	allow, why := e.authorize(r.Name, p.attributes(r, args))
	out := Decision{Allow: allow}
	for _, reason := range why.Reasons {
		out.Policies = append(out.Policies, reasonOf(reason.PolicyID, reason.Position, ""))
	}
	for _, e := range why.Errors {
		out.Errors = append(out.Errors, reasonOf(e.PolicyID, e.Position, e.Message))
	}
	return out, nil
}

// evaluation evaluates the policies for requests of one action of a caller, one after the
// other. What the requests have in common is computed once: a list has many items.
type evaluation struct {
	policy   *Policy
	resource types.EntityType
	scene    scene
	request  cedar.Request
}

func (p *Policy) evaluation(who *principal, action string) *evaluation {
	return &evaluation{
		policy:   p,
		resource: resourceTypes[action],
		scene:    scene{given: p.entities, principal: who.entity},
		request: cedar.Request{
			Principal: who.entity.UID,
			Action:    types.NewEntityUID("Action", types.String(action)),
			Context:   who.context,
		},
	}
}

// authorize evaluates the policies for the resource with a name.
func (e *evaluation) authorize(name string, attributes types.Record) (allow bool, why cedar.Diagnostic) {
	p := e.policy
	e.scene.resource = types.Entity{UID: types.NewEntityUID(e.resource, types.String(name)), Attributes: attributes}
	if given, ok := p.entities[e.scene.resource.UID]; ok {
		e.scene.resource = merge(given, e.scene.resource)
	}
	e.request.Resource = e.scene.resource.UID
	decision, why := cedar.Authorize(p, &e.scene, e.request)
	for _, fault := range why.Errors {
		p.logError(string(fault.PolicyID), fault.Message)
	}
	return decision == cedar.Allow, why
}

// attributes are those of the resource.
func (p *Policy) attributes(r Request, args types.RecordMap) types.Record {
	hints := p.usesHints && r.Action == CallTool
	if !p.usesName && len(args) == 0 {
		if hints {
			return r.Hints.record()
		}
		return types.Record{}
	}
	attributes := types.RecordMap{"name": types.String(r.Name)}
	maps.Copy(attributes, args)
	if hints {
		r.Hints.set(attributes)
	}
	return types.NewRecord(attributes)
}

var resourceTypes = map[string]types.EntityType{CallTool: "Tool", GetPrompt: "Prompt", ReadResource: "Resource"}

func reasonOf(id cedar.PolicyID, at cedar.Position, message string) Reason {
	return Reason{Policy: string(id), Line: at.Line, Column: at.Column, Error: message}
}

// logError logs the first evaluation error of each policy. It has no values of the request.
func (p *Policy) logError(policy, message string) {
	p.mu.Lock()
	first := !p.faulted[policy]
	p.faulted[policy] = true
	p.mu.Unlock()
	if first {
		p.log.Warn("an authorization policy cannot be evaluated for a request and does not apply to it; it is logged once", "policy", policy, "error", message)
	}
}

// scene is the entities of one decision.
type scene struct {
	given               types.EntityMap
	principal, resource types.Entity
}

// Get implements [types.EntityGetter].
func (s *scene) Get(uid types.EntityUID) (types.Entity, bool) {
	switch uid {
	case s.principal.UID:
		return s.principal, true
	case s.resource.UID:
		return s.resource, true
	}
	e, ok := s.given[uid]
	return e, ok
}

// arguments are the attributes of a call's arguments.
func arguments(raw json.RawMessage) (types.RecordMap, error) {
	out := types.RecordMap{}
	err := mcp.Members(raw, func(name string, value json.RawMessage) bool {
		var decoded any
		dec := json.NewDecoder(strings.NewReader(string(value)))
		dec.UseNumber()
		if dec.Decode(&decoded) == nil {
			if v := valueOf(decoded); v != nil {
				out[types.String("arg_"+name)] = v
			}
		}
		return true
	})
	if err != nil {
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: fmt.Sprintf("params.arguments: %v", err)}
	}
	return out, nil
}
