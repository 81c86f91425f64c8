package httpd

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// There is room while a notification would be accepted, and again when the client has read.
func TestStream_AwaitRoom(t *testing.T) {
	t.Parallel()
	core := &Core{Timing: DefaultTiming(), Held: Budget{Max: MaxHeld}}
	s := core.NewStream(httptest.NewRecorder())
	over := errors.New("no time left")
	expired, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	m := &mcp.Message{Method: "x", Params: json.RawMessage(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)}
	pushed := 0
	for s.Push(m, MaxPending) == nil {
		pushed++
		room, accepted := s.AwaitRoom(expired) == nil, s.Waiting() <= MaxPending
		if room != accepted {
			t.Fatalf("after %d messages there is room: %v, and the next is accepted: %v", pushed, room, accepted)
		}
	}
	if err := s.AwaitRoom(expired); !errors.Is(err, over) {
		t.Errorf("a full stream: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- s.AwaitRoom(t.Context()) }()
	gone := make(chan struct{})
	go s.Run(gone, nil, nil)
	if err := <-waited; err != nil {
		t.Errorf("a client that reads: %v", err)
	}
	close(gone)
	<-s.done
	if err := s.AwaitRoom(expired); err != nil {
		t.Errorf("a client that is gone: %v", err)
	}
}
