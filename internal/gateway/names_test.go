package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

func TestProperNames(t *testing.T) {
	_, srv := serve(t, newFakeBackend(), nil, nil)
	old := newWire(t, srv).initialize(mcp.V20251125)
	statelessClient := newWire(t, srv)
	type row struct {
		method, member, json string
		refused              bool
	}
	rows := []row{
		{"tools/call", "name", `add`, false},
		{"tools/call", "name", `a\u0064d \"ä\" \\n`, false},
		{"tools/call", "name", "\u0080\u2028", false}, // no C0
		{"tools/list", "cursor", `\u0000`, false},     // no name
	}
	for method, member := range map[string]string{
		"tools/call": "name", "prompts/get": "name", "resources/read": "uri",
	} {
		for _, c := range []string{`\u0000`, `\n`, `\t`, `\u001f`, `\u001B[2J`, "\x7f", `\u007F`} {
			rows = append(rows, row{method, member, `a` + c + `b`, true}, row{method, member, c, true})
		}
	}
	for _, r := range rows {
		t.Run(fmt.Sprintf("%s %q", r.method, r.json), func(t *testing.T) {
			answers := map[string]*answer{"sessions": old.post(req("7", r.method, `{"`+r.member+`":"`+r.json+`","arguments":{"text":"\u0000\u007f"}}`))}
			body := req("7", r.method, `{"`+r.member+`":"`+r.json+`",`+statelessMeta("")+`}`)
			m, err := mcp.Parse([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			name, _, err := mcp.LookupName(m.Method, m.Params)
			if err != nil {
				t.Fatal(err)
			}
			if name != "" {
				name = mcp.EncodeHeader(name)
			}
			answers["stateless"] = statelessClient.post(body, statelessHeaders(r.method, name)...)
			for era, a := range answers {
				got := a.message(t)
				switch {
				case !r.refused && got.Error != nil:
					t.Errorf("%s: refused: %s", era, a.body)
				case r.refused && (got.Error == nil || got.Error.Code != mcp.CodeInvalidParams || !strings.Contains(got.Error.Message, "contains control characters")):
					t.Errorf("%s: got %s", era, a.body)
				case r.refused && got.ID.String() != "7":
					t.Errorf("%s: answered to %s", era, got.ID)
				}
			}
			if r.refused && answers["stateless"].status != 400 {
				t.Errorf("status %d", answers["stateless"].status)
			}
		})
	}
	for _, method := range []string{"resources/subscribe", "resources/unsubscribe"} {
		if a := old.post(req("8", method, `{"uri":"a:\u0000"}`)); a.code(t) != mcp.CodeInvalidParams {
			t.Errorf("%s: got %s", method, a.body)
		}
	}
	if a := old.post(req("9", "tools/call", `{"name":"add\u0000","name":"add"}`)); a.code(t) != mcp.CodeInvalidParams {
		t.Errorf("two names: got %s", a.body)
	}
}
