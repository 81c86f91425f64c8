// Package policy is the gateway's stage for authorization: Cedar policies decide which tools
// a caller may call, which prompts it may get and which resources it may read. The results
// of list requests are filtered by the same decisions, so what a caller sees it may use.
//
// A decision has these entities:
//
//	principal  Client::"<subject>", in the groups of the caller's claims
//	action     Action::"call_tool", "get_prompt" or "read_resource"
//	resource   Tool::"<name>", Prompt::"<name>" or Resource::"<URI>"
//
// Claims are the attributes claim_<name> of the principal and of the context. Arguments are
// the attributes arg_<name> of the resource and of the context. A tool's annotations are the
// attributes readOnlyHint, destructiveHint, idempotentHint and openWorldHint of the resource;
// its attribute name is the name or URI.
// A request that no policy permits is denied, and forbid overrides permit (Cedar,
// Authorization). Names are the server's own: the stage is behind that of the toolset.
package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
)

// Config are the policies of a workload. Its JSON form is the member cedar of an
// authorization file.
type Config struct {
	// Policies are texts of one or more Cedar policies each.
	Policies []string `json:"policies"`
	// Entities is a JSON array of entities in Cedar's format; "" is none.
	Entities string `json:"entities_json,omitempty"`
	// GroupClaim and RoleClaim name claims whose values are groups of the principal: entities
	// of the type GroupType, by default THVGroup.
	GroupClaim string `json:"group_claim_name,omitempty"`
	RoleClaim  string `json:"role_claim_name,omitempty"`
	GroupType  string `json:"group_entity_type,omitempty"`
	// MultiValued are claims that are a set also when a token has a single value, or values
	// separated by spaces.
	MultiValued []string `json:"multi_valued_claims,omitempty"`
}

// defaultGroupType is the type of groups that existing policies have.
const defaultGroupType = "THVGroup"

// maxText bounds the policies and the entities of a workload, in bytes each.
const maxText = 1 << 20

// Policy decides by the policies of one workload. It may be used concurrently.
type Policy struct {
	cfg      Config
	policies []named
	entities types.EntityMap
	log      *slog.Logger

	// Which attributes the policies use: the others are not computed.
	usesClaims, usesArguments, usesHints, usesName bool

	lists lists
	tools tools

	mu      sync.Mutex
	faulted map[string]bool // policies with an evaluation error that was logged
}

// named is a policy with its id for people: its annotation @id, or its place in
// Config.Policies.
type named struct {
	id     cedar.PolicyID
	policy *cedar.Policy
}

// New parses and checks the policies. The error joins everything that is wrong, with line and
// column in the text of a policy.
func New(cfg Config, log *slog.Logger) (*Policy, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if cfg.GroupType == "" {
		cfg.GroupType = defaultGroupType
	}
	p := &Policy{cfg: cfg, log: log, faulted: map[string]bool{}, lists: lists{seed: maphash.MakeSeed()}, tools: tools{fetching: make(chan struct{}, 1)}}
	err := errors.Join(p.parse(), p.parseEntities())
	if err == nil {
		err = p.checkReferences()
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Validate reports what New would refuse.
func (c Config) Validate() error {
	_, err := New(c, nil)
	return err
}

// Len is the number of policies.
func (p *Policy) Len() int { return len(p.policies) }

func (p *Policy) parse() error {
	if len(p.cfg.Policies) == 0 {
		return errors.New("there is no policy: all requests would be denied")
	}
	size := 0
	for _, text := range p.cfg.Policies {
		size += len(text)
	}
	if size > maxText {
		return fmt.Errorf("the policies have %d bytes, more than %d", size, maxText)
	}
	var errs []error
	ids := map[cedar.PolicyID]bool{}
	for i, text := range p.cfg.Policies {
		place := fmt.Sprintf("policy %d", i+1)
		if err := checkNesting(text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", place, err))
			continue
		}
		list, err := cedar.NewPolicyListFromBytes(place, []byte(text))
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", place, parseError(err)))
			continue
		case len(list) == 0:
			errs = append(errs, fmt.Errorf("%s: it is empty", place))
		}
		for n, policy := range list {
			id := cedar.PolicyID(place)
			if len(list) > 1 {
				id = cedar.PolicyID(fmt.Sprintf("%s.%d", place, n+1))
			}
			if own, ok := policy.Annotations()["id"]; ok && own != "" {
				id = cedar.PolicyID(own)
			}
			if ids[id] {
				errs = append(errs, fmt.Errorf("%s: the id %q is used twice", place, id))
			}
			ids[id] = true
			p.policies = append(p.policies, named{id, policy})
		}
	}
	return errors.Join(errs...)
}

// parseError is an error of the Cedar parser without its prefixes.
func parseError(err error) error {
	text := err.Error()
	for _, prefix := range []string{"parser error: ", "parse error at "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return errors.New(strings.ReplaceAll(text, "<input>:", "line "))
}

// maxNesting bounds the brackets that are open in a policy: the parser is recursive.
const maxNesting = 100

func checkNesting(text string) error {
	depth, unary := 0, 0
	for i, r := range text {
		switch r {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case '!', '-':
			unary++
		case '\n', ';':
			unary = 0
		}
		if depth > maxNesting || unary > maxNesting {
			return fmt.Errorf("line %d: more than %d nested expressions", strings.Count(text[:i], "\n")+1, maxNesting)
		}
	}
	return nil
}

func (p *Policy) parseEntities() error {
	if p.cfg.Entities == "" {
		return nil
	}
	if len(p.cfg.Entities) > maxText {
		return fmt.Errorf("entities_json has %d bytes, more than %d", len(p.cfg.Entities), maxText)
	}
	if err := json.Unmarshal([]byte(p.cfg.Entities), &p.entities); err != nil {
		return fmt.Errorf("entities_json: %w", err)
	}
	return nil
}

// All implements [cedar.PolicyIterator].
func (p *Policy) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] { return p.each }

func (p *Policy) each(yield func(cedar.PolicyID, *cedar.Policy) bool) {
	for _, n := range p.policies {
		if !yield(n.id, n.policy) {
			return
		}
	}
}

// actions are the actions that a policy may name. The list actions are those of existing
// policies: a list request is always sent, and its result is filtered.
var actions = []string{CallTool, GetPrompt, ReadResource, "list_tools", "list_prompts", "list_resources"}

// The actions of decisions.
const (
	CallTool     = "call_tool"
	GetPrompt    = "get_prompt"
	ReadResource = "read_resource"
)

// entityTypes are the types of the entities of a decision.
var entityTypes = []string{"Client", "Action", "Tool", "Prompt", "Resource", "FeatureType"}

// checkReferences refuses policies that name an action or an entity type that no decision
// has: they would never apply. It records which attributes the policies use.
func (p *Policy) checkReferences() error {
	known := append(slices.Clone(entityTypes), p.cfg.GroupType)
	for uid, e := range p.entities {
		known = append(known, string(uid.Type))
		for parent := range e.Parents.All() {
			known = append(known, string(parent.Type))
		}
	}
	var errs []error
	for _, n := range p.policies {
		raw, err := n.policy.MarshalJSON()
		if err != nil {
			return fmt.Errorf("%s: %w", n.id, err)
		}
		var tree any
		if err := json.Unmarshal(raw, &tree); err != nil {
			return fmt.Errorf("%s: %w", n.id, err)
		}
		r := &references{known: known}
		r.visit(tree)
		for _, fault := range slices.Compact(r.faults) {
			pos := n.policy.Position()
			errs = append(errs, fmt.Errorf("%s, line %d, column %d: %s", n.id, pos.Line, pos.Column, fault))
		}
		text := string(raw)
		p.usesClaims = p.usesClaims || strings.Contains(text, `"claim_`)
		p.usesArguments = p.usesArguments || strings.Contains(text, `"arg_`)
		p.usesName = p.usesName || strings.Contains(text, `"name"`)
		p.usesHints = p.usesHints || strings.Contains(text, `Hint"`)
	}
	return errors.Join(errs...)
}
