package correlate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

func launch(t *testing.T, table *RequestTable, id mcp.ID, params string) (*PendingRequest, *mcp.Message, *backendtest.Peer) {
	t.Helper()
	p := backendtest.NewPeer()
	f, out, err := add(table, backendtest.ExchangeOf(backendtest.Request(id, "m", params), p))
	if err != nil {
		t.Fatal(err)
	}
	return f, out, p
}

func add(table *RequestTable, x *exchange.Exchange) (*PendingRequest, *mcp.Message, error) {
	return table.Add(x, x.Peer)
}

func TestRequestTable_OwnIDs(t *testing.T) {
	table := NewRequestTable(true)
	one, out1, _ := launch(t, table, mcp.StringID("same"), `{}`)
	two, out2, _ := launch(t, table, mcp.StringID("same"), `{}`)
	if out1.ID == out2.ID || out1.ID == mcp.StringID("same") {
		t.Fatalf("ids toward the server: %s, %s", out1.ID, out2.ID)
	}
	if !table.Deliver(mcp.NewResult(out2.ID, json.RawMessage(`2`))) || table.Deliver(mcp.NewResult(out2.ID, json.RawMessage(`3`))) {
		t.Error("a response is assigned once")
	}
	if table.DeliverTo(one, mcp.NewResult(out2.ID, json.RawMessage(`4`))) {
		t.Error("the response to another request was assigned")
	}
	if m, err := two.Wait(t.Context()); err != nil || m.ID != mcp.StringID("same") || string(m.Result) != "2" {
		t.Errorf("got %+v, %v", m, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := one.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	table.Remove(one)
	if table.Deliver(mcp.NewResult(out1.ID, json.RawMessage(`1`))) {
		t.Error("a response was assigned to a request that was removed")
	}
}

// A server that mixes up its sessions finds no equal id in another one.
func TestRequestTable_IDsDifferBetweenSessions(t *testing.T) {
	const sessions, requests = 50, 20
	seen := map[mcp.ID]int{}
	for n := range sessions {
		table := NewRequestTable(n%2 == 0)
		for range requests {
			_, out, _ := launch(t, table, mcp.IntID(1), `{}`)
			seen[out.ID]++
			if id, err := strconv.ParseInt(out.ID.String(), 10, 64); err != nil || id < 1 || id > math.MaxInt32 {
				t.Fatalf("id %s toward the server", out.ID)
			}
		}
	}
	// By chance two sessions overlap in one of some 20,000 runs, three in none.
	if len(seen) < (sessions-1)*requests {
		t.Errorf("%d ids for %d requests", len(seen), sessions*requests)
	}
}

func TestRequestTable_FailEndsAllRequests(t *testing.T) {
	table := NewRequestTable(false)
	one, _, _ := launch(t, table, mcp.IntID(1), `{}`)
	two, _, _ := launch(t, table, mcp.IntID(2), `{}`)
	first := errors.New("first")
	table.Fail(first)
	table.Fail(errors.New("second"))
	for _, f := range []*PendingRequest{one, two} {
		if _, err := f.Wait(t.Context()); err != first {
			t.Errorf("got %v", err)
		}
	}
	if _, _, err := add(table, backendtest.ExchangeOf(backendtest.Request(mcp.IntID(3), "m", `{}`), backendtest.NewPeer())); err != first {
		t.Errorf("add: %v", err)
	}
}

// On a shared connection the tokens of two clients may be equal.
func TestNotify_ProgressTokensOnSharedConnection(t *testing.T) {
	table := NewRequestTable(true)
	_, out1, p1 := launch(t, table, mcp.IntID(1), `{"a":1.0,"_meta":{"progressToken":"t","x":1}}`)
	f2, out2, p2 := launch(t, table, mcp.IntID(1), `{"_meta":{"progressToken":"t"}}`)
	launch(t, table, mcp.IntID(1), `{}`)
	if want := fmt.Sprintf(`{"a":1.0,"_meta":{"progressToken":%s,"x":1}}`, out1.ID); string(out1.Params) != want {
		t.Errorf("sent %s, want %s", out1.Params, want)
	}
	progress := func(token string) bool {
		return table.Notify(&mcp.Message{Method: mcp.NotificationProgress, Params: json.RawMessage(`{"progress":1,"progressToken":` + token + `}`)})
	}
	if !progress(out2.ID.String()) {
		t.Error("not delivered")
	}
	if len(p1.Notes) != 0 || len(p2.Notes) != 1 {
		t.Fatalf("delivered to %d, %d", len(p1.Notes), len(p2.Notes))
	}
	if m := <-p2.Notes; string(m.Params) != `{"progress":1,"progressToken":"t"}` {
		t.Errorf("got %s", m.Params)
	}
	table.Remove(f2)
	for _, token := range []string{out2.ID.String(), `"t"`, `3`, `99`, `null`, `1.5`} {
		if !progress(token) || len(p1.Notes)+len(p2.Notes) != 0 {
			t.Errorf("token %s: a request received it", token)
		}
	}
}

func TestNotify_Attribution(t *testing.T) {
	note := func(method, params string) *mcp.Message {
		return &mcp.Message{Method: method, Params: json.RawMessage(params)}
	}
	log := note(mcp.NotificationMessage, `{}`)
	tests := []struct {
		name    string
		shared  bool
		params  []string // of the pending requests
		m       *mcp.Message
		settled bool
		owner   int // index of the request that receives it, -1 for none
	}{
		{"none in flight: the session's", false, nil, log, false, -1},
		{"one in flight: its", false, []string{`{}`}, log, true, 0},
		{"two in flight: the session's", false, []string{`{}`, `{}`}, log, false, -1},
		{"the token decides", false, []string{`{"_meta":{"progressToken":"a"}}`, `{"_meta":{"progressToken":7}}`},
			note(mcp.NotificationProgress, `{"progressToken":7}`), true, 1},
		{"the token, spelt otherwise", false, []string{`{"_meta":{"progressToken":"a"}}`, `{}`},
			note(mcp.NotificationProgress, `{"progressToken":"\u0061"}`), true, 0},
		{"the newest of two with one token", false, []string{`{"_meta":{"progressToken":1}}`, `{"_meta":{"progressToken":1}}`},
			note(mcp.NotificationProgress, `{"progressToken":1}`), true, 1},
		{"progress of a finished request: the session's", false, []string{`{}`}, note(mcp.NotificationProgress, `{"progressToken":1}`), false, -1},
		{"news of the server on a shared line: every session's", true, []string{`{}`}, note(mcp.NotificationToolsChanged, ``), false, -1},
		{"one in flight on a shared line: its", true, []string{`{}`}, log, true, 0},
		{"two in flight on a shared line: the sessions'", true, []string{`{}`, `{}`}, log, false, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := NewRequestTable(tt.shared)
			var peers []*backendtest.Peer
			for i, params := range tt.params {
				_, _, p := launch(t, table, mcp.IntID(int64(i)), params)
				peers = append(peers, p)
			}
			if got := table.Notify(tt.m); got != tt.settled {
				t.Errorf("settled %v, want %v", got, tt.settled)
			}
			for i, p := range peers {
				if got := len(p.Notes) == 1; got != (i == tt.owner) {
					t.Errorf("request %d received it: %v", i, got)
				}
			}
		})
	}
}

func TestSendServerRequest_Recipient(t *testing.T) {
	named := func(name string, err error) *backendtest.Peer {
		p := backendtest.NewPeer()
		p.Answer = func(_ context.Context, q *mcp.Message) (*mcp.Message, error) {
			return mcp.NewResult(q.ID, json.RawMessage(`"`+name+`"`)), err
		}
		return p
	}
	cannot := &mcp.Error{Code: -1, Message: "no capability"}
	tests := []struct {
		name       string
		shared     bool
		pending    int
		sessionErr error
		want       string // the recipient, or the text of the error
	}{
		{"none pending: the session", false, 0, nil, `"session"`},
		{"none pending, no client in the session", false, 0, cannot, "no capability"},
		{"one pending: its client", false, 1, nil, `"request 0"`},
		{"several: the session", false, 3, nil, `"session"`},
		{"several, the session cannot: the newest", false, 3, cannot, `"request 2"`},
		{"one on a shared connection", true, 1, nil, `"request 0"`},
		{"several on a shared connection", true, 2, nil, "it is not known which client"},
		{"none on a shared connection", true, 0, nil, "it is not known which client"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := NewRequestTable(tt.shared)
			for i := range tt.pending {
				if _, _, err := add(table, backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), "m", `{}`), named(fmt.Sprintf("request %d", i), nil))); err != nil {
					t.Fatal(err)
				}
			}
			m, err := table.SendServerRequest(t.Context(), backendtest.Request(mcp.IntID(9), mcp.MethodSampling, `{}`), named("session", tt.sessionErr))
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = string(m.Result)
			}
			if !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	t.Run("no session", func(t *testing.T) {
		if _, err := NewRequestTable(false).SendServerRequest(t.Context(), backendtest.Request(mcp.IntID(1), "m", ``), nil); backendtest.CodeOf(err) != mcp.CodeMethodNotFound {
			t.Errorf("got %v", err)
		}
	})
}

func TestQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	sent := make(chan *mcp.Message, 10*wire.MaxServerRequests)
	q := NewServerRequests(func(_ context.Context, m *mcp.Message) { sent <- m })
	block := func(ctx context.Context, _ *mcp.Message) (*mcp.Message, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	put := func(m *mcp.Message, ask func(context.Context, *mcp.Message) (*mcp.Message, error)) {
		t.Helper()
		if err := q.Start(m, ask); err != nil {
			t.Error(err)
		}
	}
	for i := range wire.MaxServerRequests {
		put(backendtest.Request(mcp.IntID(int64(i)), "m", ``), block)
	}
	put(backendtest.Request(mcp.StringID("one too many"), "m", ``), block)
	if m := <-sent; m.ID != mcp.StringID("one too many") || m.Error == nil {
		t.Errorf("got %+v", m)
	}
	put(backendtest.Request(mcp.IntID(0), "m", ``), block)
	if m := <-sent; m.ID != mcp.IntID(0) || m.Error == nil || !strings.Contains(m.Error.Message, "in use") {
		t.Errorf("got %+v", m)
	}
	q.Cancel(&mcp.Message{Params: json.RawMessage(`{"requestId":"unknown"}`)}) // takes nothing back
	q.Cancel(&mcp.Message{})
	put(backendtest.Request(mcp.StringID("one too many still"), "m", ``), block)
	if m := <-sent; m.ID != mcp.StringID("one too many still") || m.Error == nil {
		t.Errorf("got %+v", m)
	}
	q.Close() // takes all back, waits for them, and nothing is sent for them
	put(backendtest.Request(mcp.StringID("late"), mcp.MethodPing, ``), block)
	if len(sent) != 0 {
		t.Errorf("sent %+v", <-sent)
	}
}

func TestAServerIsToldOfEveryQuestionThatHasNoRoom(t *testing.T) {
	t.Parallel()
	reading, told := make(chan struct{}), make(chan *mcp.Message, 4000)
	q := NewServerRequests(func(ctx context.Context, m *mcp.Message) {
		select {
		case <-reading:
			told <- m
		case <-ctx.Done():
		}
	})
	defer q.Close()
	block := func(ctx context.Context, _ *mcp.Message) (*mcp.Message, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	const asked = 3000
	for i := range asked {
		if err := q.Start(backendtest.Request(mcp.IntID(int64(i)), "m", ``), block); err != nil {
			t.Fatalf("question %d: %v", i, err)
		}
	}
	close(reading)
	refused := map[mcp.ID]bool{}
	for range asked - wire.MaxServerRequests {
		select {
		case m := <-told:
			if m.Error == nil || m.Error.Message != errTooManyServerRequests.Message || refused[m.ID] {
				t.Fatalf("told %s", m.Encode())
			}
			refused[m.ID] = true
		case <-time.After(backendtest.Patience):
			t.Fatalf("told of %d only", len(refused))
		}
	}
	backendtest.Eventually(t, "there is room again", func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.refusedSize == 0 && !q.refusing && q.running == wire.MaxServerRequests
	})
}

func TestAServerThatReadsNoRefusalsIsGivenUp(t *testing.T) {
	t.Parallel()
	q := NewServerRequests(func(ctx context.Context, _ *mcp.Message) { <-ctx.Done() })
	defer q.Close()
	long := strings.Repeat("x", 64<<10)
	for i := range 2*wire.MaxServerRequests + maxRefusals/len(long) + 1 {
		err := q.Start(backendtest.Request(mcp.StringID(fmt.Sprint(i, long)), mcp.MethodPing, ``), nil)
		if err != nil {
			if i < 2*wire.MaxServerRequests || !errors.Is(err, errFlood) {
				t.Fatalf("question %d: %v", i, err)
			}
			return
		}
	}
	t.Error("refusals are kept without end")
}

// What a server may send about a cancelled request is not assigned to another.
func TestOrphan(t *testing.T) {
	t.Parallel()
	for _, stateless := range []bool{false, true} {
		table := NewRequestTable(true)
		table.Stateless = stateless
		add := func(method, params string, p exchange.Peer) *PendingRequest {
			f, _, err := add(table, backendtest.ExchangeOf(backendtest.Request(mcp.IntID(1), method, params), p))
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		const logs = `{"_meta":{"` + mcp.MetaLogLevel + `":"info"}}`
		notify := table.Notify
		if stateless {
			notify = table.NotifyStateless
		}
		log := &mcp.Message{Method: mcp.NotificationMessage, Params: json.RawMessage(`{"level":"info","data":"x"}`)}
		receiver := backendtest.NewPeer()
		orphan := add("m", logs, nil)
		table.Orphan(orphan)
		add("m", logs, receiver)
		if notify(log) || len(receiver.Notes) > 0 {
			t.Errorf("stateless %t: assigned with an orphan in the table", stateless)
		}
		table.Deliver(mcp.NewResult(orphan.ID, json.RawMessage(`{}`)))
		if !notify(log) || len(receiver.Notes) != 1 {
			t.Errorf("stateless %t: not assigned to the sole request", stateless)
		}
		if !stateless {
			continue
		}
		// Log messages are never about a request that names no level, nor about a
		// subscription; other messages may be about the former.
		for method, other := range map[string]bool{"m": false, mcp.MethodSubscriptionsListen: true} {
			f := add(method, `{}`, nil)
			table.Orphan(f)
			if !notify(log) {
				t.Errorf("%s: not assigned to the sole request that names a level", method)
			}
			if notify(&mcp.Message{Method: "notifications/x"}) != other {
				t.Errorf("%s: another message is assigned: %t", method, !other)
			}
			table.Remove(f)
		}
	}
}

func TestOrphan_Bound(t *testing.T) {
	t.Parallel()
	table := NewRequestTable(true)
	for range maxOrphans + 10 {
		f, _, _ := launch(t, table, mcp.IntID(1), `{}`)
		if !table.Orphan(f) {
			t.Fatal("it was not pending")
		}
	}
	if len(table.pending) != maxOrphans {
		t.Errorf("%d kept", len(table.pending))
	}
}

// The sole pending request receives what names no request, but never a notification about
// the session.
func TestRequestTable_SessionWideNotification(t *testing.T) {
	t.Parallel()
	for method, settled := range map[string]bool{
		mcp.NotificationMessage:         true,
		mcp.NotificationToolsChanged:    false,
		mcp.NotificationResourceUpdated: false,
	} {
		table, p := NewRequestTable(false), backendtest.NewPeer()
		if _, _, err := add(table, backendtest.ExchangeOf(backendtest.Call(mcp.IntID(1), "a", `{}`), p)); err != nil {
			t.Fatal(err)
		}
		if got := table.Notify(&mcp.Message{Method: method, Params: json.RawMessage(`{}`)}); got != settled || len(p.Notes) > 0 != settled {
			t.Errorf("%s: Notify returned %t, the request received %d", method, got, len(p.Notes))
		}
	}
}
