package correlate

import (
	"testing"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A response without an id answers the sole pending request.
func TestResponsesWithoutAnID(t *testing.T) {
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
