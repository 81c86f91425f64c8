package correlate

import (
	"errors"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// What a server says it could not read is somebody's only when it must be.
func TestErrorsThatDoNotSayWhatTheyAnswer(t *testing.T) {
	table := NewRequestTable(false)
	nameless := func(code int) bool {
		return table.Deliver(&mcp.Message{Error: &mcp.Error{Code: code, Message: "no"}})
	}
	waits := func(f *PendingRequest, want bool) {
		t.Helper()
		if table.Has(f) != want {
			t.Errorf("request %d waits: %v, want %v", f.number, !want, want)
		}
	}
	fly := func() *PendingRequest {
		f, _, _ := launch(t, table, mcp.IntID(1), `{}`)
		return f
	}
	if nameless(mcp.CodeParse) {
		t.Error("nobody's error was somebody's")
	}
	one, two := fly(), fly()
	nameless(mcp.CodeParse)
	three := fly() // it came later, and cannot be meant
	table.Deliver(mcp.NewResult(three.ID, []byte(`{}`)))
	waits(one, true)
	waits(two, true)
	table.Deliver(mcp.NewResult(one.ID, []byte(`{}`)))
	if waits(two, false); two.Answer == nil || two.Answer.Error.Message != "no" {
		t.Errorf("got %v, %v", two.Answer, two.Err)
	}

	// As many such errors as requests.
	one, two = fly(), fly()
	nameless(mcp.CodeParse)
	nameless(mcp.CodeInternal)
	waits(one, false)
	waits(two, false)

	// A request that leaves may have been the one.
	one, two, three = fly(), fly(), fly()
	nameless(mcp.CodeParse)
	table.Remove(one)
	table.Settle(two, errors.New("gone"))
	waits(three, true)
	table.Remove(three)

	// What is not known cannot have been a request as long as it may be a notification.
	table.Tell()
	one = fly()
	nameless(mcp.CodeMethodNotFound)
	waits(one, true)
	table.Deliver(mcp.NewResult(one.ID, []byte(`{}`)))
	one = fly()
	nameless(mcp.CodeMethodNotFound)
	waits(one, false)

	// Nor while the server may speak about one that is not in the table.
	one, two = fly(), fly()
	table.Orphan(one, time.Now().Add(time.Hour))
	nameless(mcp.CodeParse)
	waits(two, true)
}
