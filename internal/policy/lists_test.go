package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A decision on a call uses the annotations of the list that was received last, also when the
// server returns to a list that it has sent before.
func TestStage_ChangedAnnotations(t *testing.T) {
	s := &server{results: map[string][]string{}}
	do := stage(t, s, `permit(principal, action, resource) when { resource.readOnlyHint };`)
	for i, readOnly := range []bool{true, false, true, false} {
		s.results[mcp.MethodToolsList] = []string{fmt.Sprintf(`{"tools":[{"name":"a","annotations":{"readOnlyHint":%t}}]}`, readOnly)}
		m, err := do(t.Context(), request(mcp.MethodToolsList, `{}`))
		if err != nil || strings.Contains(string(m.Result), `"a"`) != readOnly {
			t.Errorf("list %d is %v, %v", i, m, err)
		}
		if _, err := do(t.Context(), request(mcp.MethodToolsCall, `{"name":"a"}`)); (err == nil) != readOnly {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// The decisions on a list that is kept are made for each caller.
func TestStage_ListForEachCaller(t *testing.T) {
	s := &server{results: map[string][]string{mcp.MethodToolsList: {`{"tools":[{"name":"a"},{"name":"b"}]}`}}}
	do := stage(t, s, `permit(principal == Client::"ann", action, resource == Tool::"a");`, `permit(principal == Client::"bob", action, resource == Tool::"b");`)
	for range 2 {
		for subject, want := range map[string]string{"ann": "a", "bob": "b"} {
			x := request(mcp.MethodToolsList, `{}`)
			x.Caller.Subject = subject
			m, err := do(t.Context(), x)
			if err != nil || string(m.Result) != `{"tools":[{"name":"`+want+`"}]}` {
				t.Errorf("%s receives %v, %v", subject, m, err)
			}
		}
	}
}

func TestLists_Bound(t *testing.T) {
	p, err := New(Config{Policies: []string{`permit(principal, action, resource) when { resource.name like "t*" };`}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		result := json.RawMessage(fmt.Sprintf(`{"tools":[{"name":"t%d","description":%q}]}`, i, strings.Repeat("x", 1<<20)))
		if _, err := p.read(mcp.MethodToolsList, result); err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, l := range p.lists.byText {
			size += l.size
		}
		if size != p.lists.size || size > maxLists || size == 0 {
			t.Fatalf("after %d lists %d bytes are kept, counted as %d", i+1, size, p.lists.size)
		}
	}
	if _, err := p.read(mcp.MethodToolsList, json.RawMessage(`{"tools":[`+strings.Repeat(`{"name":""},`, 10_000)+`{"name":""}]}`)); err != nil {
		t.Fatal(err)
	}
	if size := p.lists.size; size > maxLists {
		t.Errorf("%d bytes are kept", size)
	}
}
