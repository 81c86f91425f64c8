package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/exchange"
)

func TestNew_Errors(t *testing.T) {
	for _, row := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"no policy", Config{}, "there is no policy"},
		{"syntax", Config{Policies: []string{"permit(principal, action, resource);", "permit(\n  principal action, resource);"}}, "policy 2: "},
		{"empty text", Config{Policies: []string{"// nothing"}}, "policy 1: it is empty"},
		{"unknown action", Config{Policies: []string{`permit(principal, action == Action::"call_tol", resource);`}}, `policy 1, line 1, column 1: there is no Action::"call_tol"; did you mean "call_tool"?`},
		{"unknown action in a list", Config{Policies: []string{`permit(principal, action in [Action::"call_tool", Action::"read_resourc"], resource);`}}, `there is no Action::"read_resourc"`},
		{"unknown type in a condition", Config{Policies: []string{`permit(principal, action, resource) when { resource is Tol };`}}, `there is no entity type Tol; did you mean "Tool"?`},
		{"unknown group type", Config{Policies: []string{`permit(principal in Group::"a", action, resource);`}}, "there is no entity type Group"},
		{"an id twice", Config{Policies: []string{`@id("a") permit(principal, action, resource); @id("a") permit(principal, action, resource);`}}, `the id "a" is used twice`},
		{"entities", Config{Policies: []string{`permit(principal, action, resource);`}, Entities: `{"uid":1}`}, "entities_json: "},
		{"nesting", Config{Policies: []string{`permit(principal, action, resource) when { ` + strings.Repeat("(", 5000) + "true" + strings.Repeat(")", 5000) + ` };`}}, "more than 100 nested"},
		{"negation", Config{Policies: []string{`permit(principal, action, resource) when { ` + strings.Repeat("!", 5000) + "true" + ` };`}}, "more than 100 nested"},
		{"size", Config{Policies: []string{strings.Repeat(" ", maxText+1)}}, "more than"},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := row.cfg.Validate()
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got  %v\nwant %s", err, row.want)
			}
			if row.name == "syntax" {
				t.Log(err)
			}
		})
	}
}

func caller(claims string) *exchange.Caller {
	c := &exchange.Caller{Subject: "ann"}
	dec := json.NewDecoder(strings.NewReader(claims))
	dec.UseNumber()
	if err := dec.Decode(&c.Claims); err != nil {
		panic(err)
	}
	return c
}

func TestDecide(t *testing.T) {
	readOnly := &Hints{ReadOnly: true}
	for _, row := range []struct {
		policy, claims string
		request        Request
		allow          bool
	}{
		{`permit(principal, action == Action::"call_tool", resource == Tool::"add");`, `{}`, Request{Action: CallTool, Name: "add"}, true},
		{`permit(principal, action == Action::"call_tool", resource == Tool::"add");`, `{}`, Request{Action: CallTool, Name: "sub"}, false},
		{`permit(principal, action == Action::"call_tool", resource == Tool::"add");`, `{}`, Request{Action: GetPrompt, Name: "add"}, false},
		{`permit(principal == Client::"ann", action, resource);`, `{}`, Request{Action: ReadResource, Name: "file:///a"}, true},
		{`permit(principal == Client::"bob", action, resource);`, `{}`, Request{Action: ReadResource, Name: "file:///a"}, false},
		{`permit(principal, action, resource) when { principal.claim_team == "a" };`, `{"team":"a"}`, Request{Action: CallTool, Name: "x"}, true},
		{`permit(principal, action, resource) when { context.claim_level > 3 };`, `{"level":4}`, Request{Action: CallTool, Name: "x"}, true},
		{`permit(principal, action, resource) when { context.claim_level > 3 };`, `{"level":4.5}`, Request{Action: CallTool, Name: "x"}, false},
		{`permit(principal, action, resource) when { principal.claim_roles.contains("admin") };`, `{"roles":["a","admin"]}`, Request{Action: CallTool, Name: "x"}, true},
		{`permit(principal, action, resource) when { principal.claim_one.contains("admin") };`, `{"one":"admin"}`, Request{Action: CallTool, Name: "x"}, true},
		{`permit(principal in THVGroup::"eng", action, resource);`, `{"groups":["eng"]}`, Request{Action: CallTool, Name: "x"}, true},
		{`permit(principal in THVGroup::"ops", action, resource);`, `{"groups":["eng"]}`, Request{Action: CallTool, Name: "x"}, false},
		{`permit(principal, action, resource); forbid(principal, action, resource) when { resource has arg_path && resource.arg_path like "/etc/*" };`, `{}`, Request{Action: CallTool, Name: "x", Arguments: json.RawMessage(`{"path":"/etc/passwd"}`)}, false},
		{`permit(principal, action, resource) when { context.arg_n == 7 };`, `{}`, Request{Action: CallTool, Name: "x", Arguments: json.RawMessage(`{"n":7}`)}, true},
		{`permit(principal, action, resource) when { context.arg_o.deep };`, `{}`, Request{Action: CallTool, Name: "x", Arguments: json.RawMessage(`{"o":{"deep":true,"none":null}}`)}, true},
		{`permit(principal, action, resource) when { resource.readOnlyHint };`, `{}`, Request{Action: CallTool, Name: "x", Hints: readOnly}, true},
		{`permit(principal, action, resource) when { resource.readOnlyHint };`, `{}`, Request{Action: CallTool, Name: "x"}, false},
		{`permit(principal, action, resource); forbid(principal, action, resource) when { resource.destructiveHint };`, `{}`, Request{Action: CallTool, Name: "x"}, false},
		// A claim cannot replace what the gateway sets.
		{`permit(principal, action, resource) when { resource.name == "add" };`, `{"name":"add"}`, Request{Action: CallTool, Name: "sub"}, false},
	} {
		p, err := New(Config{Policies: []string{row.policy}, GroupClaim: "groups", MultiValued: []string{"one"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Decide(caller(row.claims), row.request)
		if err != nil || got.Allow != row.allow {
			t.Errorf("%s with %s: %v, %v; want %v", row.policy, row.claims, got, err, row.allow)
		}
	}
}

func TestDecide_Entities(t *testing.T) {
	p, err := New(Config{
		Policies: []string{`permit(principal, action, resource in Folder::"public");`, `permit(principal in THVGroup::"staff", action, resource == Tool::"b");`},
		Entities: `[{"uid":{"type":"Tool","id":"a"},"parents":[{"type":"Folder","id":"public"}],"attrs":{}},
			{"uid":{"type":"THVGroup","id":"eng"},"parents":[{"type":"THVGroup","id":"staff"}],"attrs":{}}]`,
		GroupClaim: "groups",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a": true, "b": true, "c": false} {
		got, err := p.Decide(caller(`{"groups":["eng"]}`), Request{Action: CallTool, Name: name})
		if err != nil || got.Allow != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestDecide_Reasons(t *testing.T) {
	p, err := New(Config{Policies: []string{
		`@id("all") permit(principal, action, resource);`,
		"// the second\nforbid(principal, action, resource) when { principal.claim_blocked };",
		`forbid(principal, action, resource == Tool::"x");`,
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Decide(nil, Request{Action: CallTool, Name: "x"})
	if err != nil || got.Allow || len(got.Policies) != 1 || got.Policies[0].Policy != "policy 3" {
		t.Errorf("%+v, %v", got, err)
	}
	if len(got.Errors) != 1 || got.Errors[0].Policy != "policy 2" || got.Errors[0].Line != 2 || !strings.Contains(got.Errors[0].Error, "claim_blocked") {
		t.Errorf("%+v", got.Errors)
	}
	if got, _ := p.Decide(nil, Request{Action: CallTool, Name: "y"}); !got.Allow || got.Policies[0].Policy != "all" {
		t.Errorf("%+v", got)
	}
}
