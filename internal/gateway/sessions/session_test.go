package sessions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

func newCore() *httpd.Core {
	return &httpd.Core{
		Log: slog.New(slog.DiscardHandler), Timing: httpd.DefaultTiming(), Context: context.Background(), MaxSessions: 10,
		Inbound: httpd.Budget{Max: httpd.MaxInbound}, Held: httpd.Budget{Max: httpd.MaxHeld},
	}
}

// idleConn is a connection of which nothing is used.
type idleConn struct {
	exchange.Conn
	handle []byte
}

func (c *idleConn) Handle() ([]byte, bool) { return c.handle, c.handle != nil }
func (c *idleConn) Done() <-chan struct{}  { return nil }

func TestSession_CallsAreBounded(t *testing.T) {
	s := newSession(newCore(), "")
	s.conn = &idleConn{}
	begin := func(id string) error {
		_, _, err := s.begin(mcp.StringID(id), "x", &call{cancel: func(error) {}})
		return err
	}
	for i := range maxCalls {
		if err := begin(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := begin("one more"); !errors.Is(err, errTooManyCalls) || refusedStatus(err) != http.StatusServiceUnavailable {
		t.Errorf("got %v", err)
	}
	s.finish(mcp.StringID("0"))
	if err := begin("one more"); err != nil {
		t.Errorf("after another has ended: %v", err)
	}
}

func TestStore_FindChecksThePrincipal(t *testing.T) {
	core := newCore()
	st := &Store{core: core, table: newTable(&core.MaxSessions)}
	s := newSession(core, "id")
	s.principal = "alice"
	if _, ok := st.table.add(s); !ok {
		t.Fatal("the table is full")
	}
	if st.find("id", "alice") != s || st.find("id", "mallory") != nil || st.find("other", "alice") != nil {
		t.Error("a session is found by another principal, or not by its own")
	}
}

func TestTombstones_BoundedInNumberAndTime(t *testing.T) {
	var ended tombstones
	first := newSerial()
	ended.add(first, time.Now())
	for range maxTombstones {
		ended.add(newSerial(), time.Now())
	}
	if ended.has(first) || len(ended.known) != maxTombstones || len(ended.order) != maxTombstones {
		t.Errorf("%d are kept", len(ended.known))
	}
	last := newSerial()
	ended.add(last, time.Now().Add(2*resumeAge))
	if !ended.has(last) || len(ended.known) != 1 {
		t.Errorf("%d are kept after all others expired", len(ended.known))
	}
}

// An answer that arrives while its request is removed releases its body.
func TestQuestions_LateAnswerReleasesItsBody(t *testing.T) {
	core := newCore()
	body, _ := core.Inbound.Reserve(2 * httpd.SmallSize)
	var q questions
	id, answered := q.add()
	answer := &mcp.Message{ID: id, Result: []byte(`{}`)}
	if !q.answer(answer, body) || q.answer(answer, body) {
		t.Error("a request has not exactly one answer")
	}
	body.Release() // its POST
	q.remove(id)
	if core.Inbound.Used() != 2*httpd.SmallSize {
		t.Errorf("%d bytes are counted while the answer waits", core.Inbound.Used())
	}
	httpd.Discard(answered)
	if core.Inbound.Used() != 0 {
		t.Errorf("%d bytes are counted after the answer was discarded", core.Inbound.Used())
	}
}
