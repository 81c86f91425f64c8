package hostile

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Server is a streamable HTTP server of one era, with the tools "good", "round"
// and one for each of [Faults].
type Server struct {
	// Modern servers speak 2026-07-28 only, others 2025-11-25 only.
	Modern bool
	// JSON answers with a body of JSON where it can, not with a stream of events.
	JSON bool
	// Step does, when it returns true, something wrong in place of a step: "POST "
	// and a method, "GET", or "DELETE". It may be nil.
	Step func(w http.ResponseWriter, r *http.Request, step string, m *mcp.Message) bool

	mu       sync.Mutex
	sessions map[string]*serverSession
	calls    map[string]int // of each nonce

	forever   sync.Map     // of the calls that wait to be cancelled, their context.CancelFunc
	Cancelled atomic.Int64 // requests that their client cancelled
	Abandoned atomic.Int64 // calls whose question was never answered
	Opened    atomic.Int64 // sessions
}

type serverSession struct {
	mu    sync.Mutex
	last  int64
	asked map[mcp.ID]chan *mcp.Message
}

const capabilities = `{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true,"listChanged":true},"logging":{}}`

// Calls is how often the tool was called with that nonce.
func (s *Server) Calls(nonce string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[nonce]
}

// Twice is a nonce that was called with more than once; "" if there is none.
// Such a call was repeated by somebody in between.
func (s *Server) Twice() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for nonce, n := range s.calls {
		if n > 1 {
			return nonce
		}
	}
	return ""
}

func (s *Server) count(nonce string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[nonce]++
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		s.other(w, r)
		return
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m, err := mcp.Parse(b)
	if err != nil {
		panic("the gateway sent " + string(b))
	}
	if s.Step != nil && s.Step(w, r, "POST "+m.Method, m) {
		return
	}
	if s.Modern {
		s.modern(w, r, m)
	} else {
		s.session(w, r, m)
	}
}

// other serves GET and DELETE.
func (s *Server) other(w http.ResponseWriter, r *http.Request) {
	if s.Step != nil && s.Step(w, r, r.Method, nil) {
		return
	}
	ss := s.find(r)
	switch {
	case s.Modern:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case ss == nil:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		w.Header().Set("Content-Type", mcp.TypeEventStream)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		s.mu.Lock()
		delete(s.sessions, r.Header.Get(mcp.HeaderSessionID))
		s.mu.Unlock()
	}
}

func (s *Server) find(r *http.Request) *serverSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[r.Header.Get(mcp.HeaderSessionID)]
}

// Forget forgets all sessions.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = nil
}

// session serves a POST of the session era.
func (s *Server) session(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
	if m.Method == mcp.MethodInitialize {
		id := rand.Text()
		s.mu.Lock()
		if s.sessions == nil {
			s.sessions = map[string]*serverSession{}
		}
		s.sessions[id] = &serverSession{asked: map[mcp.ID]chan *mcp.Message{}}
		s.mu.Unlock()
		s.Opened.Add(1)
		w.Header().Set(mcp.HeaderSessionID, id)
		sayJSON(w, mcp.NewResult(m.ID, json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"serverInfo":{"name":"hostile","version":"1"}}`)))
		return
	}
	ss := s.find(r)
	switch {
	case ss == nil && r.Header.Get(mcp.HeaderSessionID) == "":
		http.Error(w, "Bad Request: no session", http.StatusBadRequest)
	case ss == nil:
		w.WriteHeader(http.StatusNotFound)
	case m.Kind() == mcp.Response:
		ss.mu.Lock()
		answered := ss.asked[m.ID]
		delete(ss.asked, m.ID)
		ss.mu.Unlock()
		if answered != nil {
			answered <- m
		}
		w.WriteHeader(http.StatusAccepted)
	case m.Kind() == mcp.Notification:
		if m.Method == mcp.NotificationCancelled {
			s.Cancelled.Add(1)
			raw, _, _ := mcp.Lookup(m.Params, "requestId")
			if stop, ok := s.forever.Load(r.Header.Get(mcp.HeaderSessionID) + string(raw)); ok {
				stop.(context.CancelFunc)()
			}
		}
		w.WriteHeader(http.StatusAccepted)
	default:
		s.request(w, r, m, ss)
	}
}

// wait is a call without end, until it is cancelled in the way of its era.
func (s *Server) wait(r *http.Request, id mcp.ID) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	key := r.Header.Get(mcp.HeaderSessionID) + id.String()
	s.forever.Store(key, cancel)
	<-ctx.Done()
	s.forever.Delete(key)
	if s.Modern {
		s.Cancelled.Add(1)
	}
}

// modern serves a POST of the stateless era.
func (s *Server) modern(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
	version, _, _ := mcp.LookupString(m.Params, "_meta", mcp.MetaVersion)
	switch {
	case version != "2026-07-28":
		w.Header().Set("Content-Type", mcp.TypeJSON)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"2026-07-28 only","data":{"supported":["2026-07-28"],"requested":"x"}}}`, m.ID.Raw())
	case m.Method == mcp.MethodDiscover:
		sayJSON(w, mcp.NewResult(m.ID, json.RawMessage(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+capabilities+
			`,"ttlMs":0,"cacheScope":"private","_meta":{"`+mcp.MetaServerInfo+`":{"name":"hostile","version":"1"}}}`)))
	case m.Method == mcp.MethodSubscriptionsListen:
		st := newSaid(w)
		st.say(&mcp.Message{Method: mcp.NotificationSubscribed, Params: json.RawMessage(fmt.Sprintf(`{"notifications":{"toolsListChanged":true},"_meta":{%q:%s}}`, mcp.MetaSubscription, m.ID))})
		<-r.Context().Done()
	case m.Kind() == mcp.Notification:
		w.WriteHeader(http.StatusAccepted)
	default:
		s.request(w, r, m, nil)
	}
}

// request serves what both eras have.
func (s *Server) request(w http.ResponseWriter, r *http.Request, m *mcp.Message, ss *serverSession) {
	switch m.Method {
	case mcp.MethodToolsList:
		sayJSON(w, mcp.NewResult(m.ID, json.RawMessage(`{`+s.kind()+`"tools":[{"name":"good","inputSchema":{"type":"object"}}]}`)))
	case mcp.MethodToolsCall:
		s.call(w, r, m, ss)
	default:
		sayJSON(w, mcp.NewResult(m.ID, json.RawMessage(`{`+s.kind()+`"echoed":true}`)))
	}
}

// kind is what results of the era begin with.
func (s *Server) kind() string {
	if s.Modern {
		return `"resultType":"complete","ttlMs":0,"cacheScope":"private",`
	}
	return ""
}

// Call is one call of a tool.
type Call struct {
	*mcp.Message
	Modern bool
	Tool   string
	// Nonce is the argument of that name, which every success repeats.
	Nonce string
}

func callOf(m *mcp.Message, modern bool) *Call {
	c := &Call{Message: m, Modern: modern}
	c.Tool, _, _ = mcp.LookupString(m.Params, "name")
	c.Nonce, _, _ = mcp.LookupString(m.Params, "arguments", "nonce")
	return c
}

// Result is the right result.
func (c *Call) Result() string {
	result := fmt.Sprintf(`"content":[{"type":"text","text":%q}]`, c.Nonce)
	if c.Modern {
		result = `"resultType":"complete",` + result
	}
	return `{` + result + `}`
}

// Good is the right answer.
func (c *Call) Good() string { return c.With(c.ID.String(), `"result":`+c.Result()) }

// With is an answer with that id and those members.
func (*Call) With(id, members string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,` + members + `}`
}

func (s *Server) call(w http.ResponseWriter, r *http.Request, m *mcp.Message, ss *serverSession) {
	c := callOf(m, s.Modern)
	_, retry, _ := mcp.Lookup(m.Params, "inputResponses")
	_, again, _ := mcp.Lookup(m.Params, "requestState")
	if !retry && !again {
		s.count(c.Nonce)
	}
	fault, wrong := Faults[c.Tool]
	switch {
	case c.Tool == "round":
		s.round(w, r, c, ss)
	case c.Tool == "forever":
		newSaid(w)
		s.wait(r, m.ID)
	case wrong && fault.Wire != nil:
		fault.Wire(w, r, c)
	case wrong && s.JSON && !fault.Many:
		w.Header().Set("Content-Type", mcp.TypeJSON)
		fault.Say(c, func(text string) bool { _, err := io.WriteString(w, text); return err == nil })
	case wrong:
		st := newSaid(w)
		fault.Say(c, func(text string) bool { return st.raw(text) == nil })
	default:
		sayJSON(w, &mcp.Message{ID: m.ID, Result: json.RawMessage(c.Result())})
	}
}

// round says the nonce in a progress notification, asks for it back, and answers
// with what it got: who gets any of it must be who said it.
func (s *Server) round(w http.ResponseWriter, r *http.Request, c *Call, ss *serverSession) {
	kind, _, _ := mcp.LookupString(c.Params, "arguments", "kind")
	token, hasToken, _ := mcp.Lookup(c.Params, "_meta", "progressToken")
	if kind == "" {
		sayJSON(w, mcp.NewResult(c.ID, json.RawMessage(c.Result())))
		return
	}
	st := newSaid(w)
	if hasToken {
		st.say(&mcp.Message{Method: mcp.NotificationProgress, Params: json.RawMessage(fmt.Sprintf(`{"progressToken":%s,"progress":1,"message":%q}`, token, c.Nonce))})
	}
	if kind == "ask" && !s.Modern {
		answer := ss.ask(r.Context(), st, mcp.MethodElicitation, question(c.Nonce))
		if answer == nil {
			s.Abandoned.Add(1)
			return
		}
		if answer.Error != nil {
			st.say(&mcp.Message{ID: c.ID, Error: answer.Error})
			return
		}
		c.Nonce, _, _ = mcp.LookupString(answer.Result, "content", "nonce")
	}
	if kind == "ask" && s.Modern {
		state, back, _ := mcp.LookupString(c.Params, "requestState")
		got, _, _ := mcp.LookupString(c.Params, "inputResponses", "who", "content", "nonce")
		if !back {
			st.say(mcp.NewResult(c.ID, json.RawMessage(fmt.Sprintf(
				`{"resultType":"input_required","requestState":%q,"inputRequests":{"who":{"method":%q,"params":%s}}}`, "state of "+c.Nonce, mcp.MethodElicitation, question(c.Nonce)))))
			return
		}
		if state != "state of "+c.Nonce {
			got = "the state of another: " + state
		}
		c.Nonce = got
	}
	st.say(mcp.NewResult(c.ID, json.RawMessage(c.Result())))
}

func question(nonce string) string {
	return fmt.Sprintf(`{"message":%q,"requestedSchema":{"type":"object","properties":{"nonce":{"type":"string"}}}}`, nonce)
}

// ask asks under an id that every other session uses too.
func (ss *serverSession) ask(ctx context.Context, st *said, method, params string) *mcp.Message {
	answered := make(chan *mcp.Message, 1)
	ss.mu.Lock()
	ss.last++
	id := mcp.IntID(ss.last)
	ss.asked[id] = answered
	ss.mu.Unlock()
	st.say(&mcp.Message{ID: id, Method: method, Params: json.RawMessage(params)})
	select {
	case m := <-answered:
		return m
	case <-ctx.Done():
		return nil
	}
}

func sayJSON(w http.ResponseWriter, m *mcp.Message) {
	w.Header().Set("Content-Type", mcp.TypeJSON)
	_, _ = w.Write(m.Encode())
}

// said is a stream of events.
type said struct{ w http.ResponseWriter }

func newSaid(w http.ResponseWriter) *said {
	w.Header().Set("Content-Type", mcp.TypeEventStream)
	_ = http.NewResponseController(w).Flush()
	return &said{w}
}

func (s *said) say(m *mcp.Message) { _ = s.raw(string(m.Encode())) }

func (s *said) raw(data string) error {
	if _, err := s.w.Write(mcp.AppendEvent(nil, mcp.Event{Data: []byte(data)})); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}
