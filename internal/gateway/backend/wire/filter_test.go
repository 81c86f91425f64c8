package wire

import (
	"encoding/json"
	"testing"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Who watches a resource hears of it and of its parts, and not of what another client
// watches whose URI only begins with the same letters.
func TestOfWhichUpdatesASubscriptionHears(t *testing.T) {
	for _, row := range []struct {
		watched, updated string
		hears            bool
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
		f := Filter{ResourceSubscriptions: []string{row.watched}}
		if got := f.Matches(&mcp.Message{Method: mcp.NotificationResourceUpdated, Params: params}); got != row.hears {
			t.Errorf("who watches %q hears of %q: %v", row.watched, row.updated, got)
		}
	}
	f := Filter{ResourceSubscriptions: []string{"a:b"}}
	for _, params := range []string{``, `{}`, `{"uri":1}`, `{"uri":"a:b","URI":"x:y"}`, `[]`} {
		if f.Matches(&mcp.Message{Method: mcp.NotificationResourceUpdated, Params: json.RawMessage(params)}) {
			t.Errorf("an update of nothing is heard of: %s", params)
		}
	}
}
