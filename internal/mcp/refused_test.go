package mcp

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseID(t *testing.T) {
	tests := []struct {
		in   string
		want ID
	}{
		{`{"jsonrpc":"2.0","id":5,"method":""}`, IntID(5)},
		{`{"ID":1,"id":"a","Method":"x"}`, StringID("a")},
		{`{"id":1,"id":2,"method":"m"}`, ID{}},
		{`{"id":1.5,"method":"m"}`, ID{}},
		{`{"id":1,"method":`, ID{}},
		{`[{"id":1}]`, ID{}},
		{``, ID{}},
	}
	for _, tt := range tests {
		if got := ParseID([]byte(tt.in)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestAnswered(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	tests := []struct {
		in   string
		want []ID
		lost bool
	}{
		{`{"jsonrpc":"2.0","id":5,"result":{"ratio":NaN}}`, []ID{IntID(5)}, false},
		{`{"jsonrpc":"2.0","id":5,"result":`, []ID{IntID(5)}, false},
		{`{"jsonrpc":"2.0","id":5,"result":` + deep + `}`, []ID{IntID(5)}, false},
		{"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":\"\xff\"}", []ID{IntID(5)}, false},
		{"{\"result\":\"\xff\",\"id\":\"a\"}", []ID{StringID("a")}, false},
		{`{"jsonrpc":"2.0","id":5,"result":{},"error":{}}`, []ID{IntID(5)}, false},
		{`{"result":{"ratio":NaN},"jsonrpc":"2.0","id":5}`, nil, true},
		{`{"error":nope}`, nil, true},
		{`{"jsonrpc":"2.0","id":5,"id":6,"result":{}}`, nil, false},
		{`{"jsonrpc":"2.0","id":null,"result":{}}`, nil, false},
		{`{"jsonrpc":"2.0","id":1.5,"result":{}}`, nil, false},
		{`{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{"x":NaN}}`, nil, false},
		{`{"jsonrpc":"2.0","method":"m","id":5,"result":NaN}`, nil, false},
		{`{"level":"error","msg":"structured, and no message"}`, nil, false},
		{`[{"jsonrpc":"2.0","id":5,"result":{}},{"jsonrpc":"2.0","id":"b"},1]`, []ID{IntID(5), StringID("b")}, false},
		{`[{"jsonrpc":"2.0","id":5,"result":{}},{"id":6,"result":NaN`, []ID{IntID(5)}, false},
		{`{`, nil, false}, {`[`, nil, false}, {``, nil, false}, {`Listening`, nil, false},
	}
	for _, tt := range tests {
		ids, lost := Answered([]byte(tt.in))
		if !cmp.Equal(ids, tt.want, cmpIDs) || lost != tt.lost {
			t.Errorf("%.60s: got %v, lost %v; want %v, %v", tt.in, ids, lost, tt.want, tt.lost)
		}
	}
}
