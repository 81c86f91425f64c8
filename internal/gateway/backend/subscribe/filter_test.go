package subscribe

import (
	"encoding/json"
	"testing"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A subscription to a resource receives updates of it and of its parts, and none of a
// resource whose URI only has the same prefix.
func TestFilter_MatchesUpdates(t *testing.T) {
	for _, row := range []struct {
		subscribed, updated string
		want                bool
	}{
		{"a:b", "a:b", true},
		{"a:b", "a:b/c", true},
		{"a:b", "a:b?c", true},
		{"a:b", "a:b#c", true},
		{"a:b", "a:b:c", true},
		{"a:b/", "a:b/c", true},
		{"a:", "a:b", true},
		{"a:b", "a:bc", false},
		{"a:b", "a:b.c", false},
		{"a:b/", "a:b", false},
		{"a:b", "a:", false},
		{"a:b", "A:b", false},
		{"", "a:b", false},
		{"", "", false},
	} {
		params, err := json.Marshal(map[string]string{"uri": row.updated})
		if err != nil {
			t.Fatal(err)
		}
		f := Filter{ResourceSubscriptions: []string{row.subscribed}}
		if got := f.Matches(&mcp.Message{Method: mcp.NotificationResourceUpdated, Params: params}); got != row.want {
			t.Errorf("a subscription to %q matches an update of %q: %v", row.subscribed, row.updated, got)
		}
	}
	f := Filter{ResourceSubscriptions: []string{"a:b"}}
	for _, params := range []string{``, `{}`, `{"uri":1}`, `{"uri":"a:b","URI":"x:y"}`, `[]`} {
		if f.Matches(&mcp.Message{Method: mcp.NotificationResourceUpdated, Params: json.RawMessage(params)}) {
			t.Errorf("an update without a readable uri matches: %s", params)
		}
	}
}
