package backend

import (
	"errors"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// What a server says it could not read is somebody's only when it must be.
func TestErrorsThatDoNotSayWhatTheyAnswer(t *testing.T) {
	table := newInflight(false)
	nameless := func(code int) bool {
		return table.deliver(&mcp.Message{Error: &mcp.Error{Code: code, Message: "no"}})
	}
	waits := func(f *flight, want bool) {
		t.Helper()
		if table.has(f) != want {
			t.Errorf("request %d waits: %v, want %v", f.number, !want, want)
		}
	}
	fly := func() *flight {
		f, _, _ := launch(t, table, mcp.IntID(1), `{}`)
		return f
	}
	if nameless(mcp.CodeParse) {
		t.Error("nobody's error was somebody's")
	}
	one, two := fly(), fly()
	nameless(mcp.CodeParse)
	three := fly() // it came later, and cannot be meant
	table.deliver(mcp.NewResult(three.id, []byte(`{}`)))
	waits(one, true)
	waits(two, true)
	table.deliver(mcp.NewResult(one.id, []byte(`{}`)))
	if waits(two, false); two.answer == nil || two.answer.Error.Message != "no" {
		t.Errorf("got %v, %v", two.answer, two.err)
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
	table.remove(one)
	table.settle(two, errors.New("gone"))
	waits(three, true)
	table.remove(three)

	// What is not known cannot have been a request as long as it may be a notification.
	table.tell()
	one = fly()
	nameless(mcp.CodeMethodNotFound)
	waits(one, true)
	table.deliver(mcp.NewResult(one.id, []byte(`{}`)))
	one = fly()
	nameless(mcp.CodeMethodNotFound)
	waits(one, false)

	// Nor while the server may speak about one that is not in the table.
	one, two = fly(), fly()
	table.forsake(one, time.Now().Add(time.Hour))
	nameless(mcp.CodeParse)
	waits(two, true)
}
