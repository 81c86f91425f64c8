package backend

import (
	"bytes"
	"context"
	"runtime"
	"testing"
	"weak"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// A question waits for as long as a person needs; what its server sent with it, such as
// megabytes of space around it, must not.
func TestAQuestionThatWaitsKeepsNothingElse(t *testing.T) {
	asks := newQuestions(func(context.Context, *mcp.Message) {})
	defer asks.close()
	asked := make(chan struct{})
	line := func() weak.Pointer[byte] {
		b := append(bytes.Repeat([]byte(" "), 1<<20), `{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`...)
		m, err := mcp.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := asks.put(m, func(ctx context.Context, q *mcp.Message) (*mcp.Message, error) {
			close(asked)
			<-ctx.Done()
			return q, ctx.Err()
		}); err != nil {
			t.Fatal(err)
		}
		return weak.Make(&b[0])
	}()
	<-asked
	eventually(t, "the rest of the line to be collected", func() bool { runtime.GC(); return line.Value() == nil })
}
