package correlate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A response without an id answers the sole pending request.
func TestDeliver_ResponseWithoutID(t *testing.T) {
	t.Parallel()
	table := NewRequestTable(false)
	deliver := func(code int) bool {
		return table.Deliver(&mcp.Message{Error: &mcp.Error{Code: code, Message: "no"}})
	}
	add := func() *PendingRequest {
		f, _, _ := launch(t, table, mcp.IntID(1), `{}`)
		return f
	}
	if deliver(mcp.CodeParse) {
		t.Error("assigned with no request pending")
	}
	one, two := add(), add()
	if deliver(mcp.CodeParse) {
		t.Error("assigned with two requests pending")
	}
	table.Deliver(mcp.NewResult(one.ID, []byte(`{}`)))
	if deliver(mcp.CodeMethodNotFound) {
		t.Error("assigned an error about a notification")
	}
	if !deliver(mcp.CodeParse) || two.Answer == nil || two.Answer.Error.Message != "no" {
		t.Errorf("sole request: %v, %v", two.Answer, two.Err)
	}

	// What cannot be parsed ends the sole pending request too.
	one = add()
	if !table.Unreadable([]byte(`{"jsonrpc":"2.0","result":{"n":NaN}}`), mcp.ErrEventTooLarge, nil) {
		t.Error("nothing was settled")
	}
	if table.Has(one) {
		t.Error("the sole request is still pending")
	}

	// A cancelled request on a shared connection may still be answered.
	table.Shared.Store(true)
	one, two = add(), add()
	table.Orphan(one)
	if deliver(mcp.CodeParse) || !table.Has(two) {
		t.Error("assigned although it may answer the cancelled request")
	}
}

// A response whose id cannot be read belongs to none of several pending requests in
// particular: they stay, and the result reports that one of them may wait in vain.
func TestUnreadable_SeveralPending(t *testing.T) {
	t.Parallel()
	const lost, named = `{"jsonrpc":"2.0","result":{"n":NaN}}`, `{"jsonrpc":"2.0","id":%s,"result":{"n":NaN}}`
	for _, test := range []struct {
		name          string
		pending       int
		text          string
		ended, result bool
	}{
		{"none pending", 0, lost, false, true},
		{"sole request", 1, lost, true, true},
		{"two pending", 2, lost, false, false},
		{"two pending, id", 2, named, true, true},
		{"two pending, a log line", 2, "started", false, true},
		{"two pending, a batch without ids", 2, "[" + lost + "]", false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			table := NewRequestTable(false)
			var all []*PendingRequest
			for range test.pending {
				f, _, _ := launch(t, table, mcp.IntID(1), `{}`)
				all = append(all, f)
			}
			text := test.text
			if strings.Contains(text, "%s") {
				text = fmt.Sprintf(text, all[0].ID)
			}
			if got := table.Unreadable([]byte(text), mcp.ErrEventTooLarge, nil); got != test.result {
				t.Errorf("result %v, want %v", got, test.result)
			}
			for i, f := range all {
				if ended := !table.Has(f); ended != (test.ended && i == 0) {
					t.Errorf("request %d: ended is %v", i, ended)
				}
			}
		})
	}
}
