package hostile

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// SSE is a server of the older HTTP+SSE transport (MCP 2024-11-05): messages are
// POSTed to an endpoint that the first event of a stream names, and what it says
// comes on the stream. It has the tools of [Stdio], those of [EventFaults], and
// those of [PostFaults].
type SSE struct {
	// Begin writes what a stream begins with, and reports whether it goes on; nil
	// names the endpoint as it should be.
	Begin func(w http.ResponseWriter, r *http.Request, endpoint string) bool
	// Posted counts the messages that came.
	Posted atomic.Int64

	mu      sync.Mutex
	streams map[string]*events
}

// events is one open stream.
type events struct {
	Stdio
	w    http.ResponseWriter
	over bool // guarded by Stdio.mu
	gone chan struct{}
}

// Write makes an event of what [Stdio] writes in one line. The caller holds mu.
func (e *events) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	return len(line), e.raw(string(mcp.AppendEvent(nil, mcp.Event{Data: []byte(text)})))
}

// raw writes text as it is. The caller holds mu.
func (e *events) raw(text string) error {
	if e.over {
		return io.ErrClosedPipe
	}
	if _, err := io.WriteString(e.w, text); err != nil {
		return err
	}
	return http.NewResponseController(e.w).Flush()
}

// beginning writes the beginning of a stream, which messages may overtake.
type beginning struct{ e *events }

func (b beginning) Header() http.Header    { return b.e.w.Header() }
func (b beginning) WriteHeader(status int) { b.e.w.WriteHeader(status) }

func (b beginning) Write(text []byte) (int, error) {
	b.e.mu.Lock()
	defer b.e.mu.Unlock()
	return b.e.w.Write(text)
}

func (b beginning) FlushError() error {
	b.e.mu.Lock()
	defer b.e.mu.Unlock()
	return http.NewResponseController(b.e.w).Flush()
}

// say writes text as it is, unless the call was cancelled.
func (e *events) say(c *Call, text string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.cancelled[c.ID.String()] && e.raw(text) == nil
}

// end ends the stream.
func (e *events) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.over = true
		close(e.gone)
	}
}

func (s *SSE) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet:
		s.open(w, r)
	case r.Method == http.MethodPost && r.URL.Query().Has("session"):
		s.post(w, r)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (s *SSE) open(w http.ResponseWriter, r *http.Request) {
	id := rand.Text()
	e := &events{w: w, gone: make(chan struct{})}
	e.Stdio.Version, e.Stdio.Out = string(mcp.V20241105), e
	s.mu.Lock()
	if s.streams == nil {
		s.streams = map[string]*events{}
	}
	s.streams[id] = e
	s.mu.Unlock()
	defer func() {
		e.end()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.streams, id)
	}()
	w.Header().Set("Content-Type", mcp.TypeEventStream)
	begin := s.Begin
	if begin == nil {
		begin = func(w http.ResponseWriter, _ *http.Request, endpoint string) bool {
			return Names(w, endpoint)
		}
	}
	if !begin(beginning{e}, r, "/messages?session="+id) {
		return
	}
	select {
	case <-e.gone:
	case <-r.Context().Done():
	}
}

// Names writes an endpoint event.
func Names(w http.ResponseWriter, endpoint string) bool {
	_, err := fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", endpoint)
	return err == nil && http.NewResponseController(w).Flush() == nil
}

func (s *SSE) post(w http.ResponseWriter, r *http.Request) {
	s.Posted.Add(1)
	s.mu.Lock()
	e := s.streams[r.URL.Query().Get("session")]
	s.mu.Unlock()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m, err := mcp.Parse(b)
	switch {
	case err != nil:
		panic("the gateway sent " + string(b))
	case e == nil:
		w.WriteHeader(http.StatusNotFound)
		return
	case m.Method != mcp.MethodToolsCall:
		w.WriteHeader(http.StatusAccepted)
		e.take(m, func() {})
		return
	}
	c := callOf(m, false)
	if wrong := PostFaults()[c.Tool]; wrong.Post != nil {
		wrong.Post(w, r, c, e)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	_ = http.NewResponseController(w).Flush()
	if wrong := EventFaults()[c.Tool]; wrong.Stream != nil {
		wrong.Stream(c, func(text string) bool { return e.say(c, text) }, e.end)
		return
	}
	e.take(m, e.end)
}

// EventFault is something wrong with the events of a stream.
type EventFault struct {
	// Stream says texts, as they are, until say returns false; end ends the stream.
	Stream func(c *Call, say func(text string) bool, end func())
	Want   string
}

// EventFaults are the wrongs that only a stream of HTTP+SSE can do.
func EventFaults() map[string]EventFault {
	says := func(want string, text func(c *Call) string) EventFault {
		return EventFault{Want: want, Stream: func(c *Call, say func(string) bool, _ func()) { say(text(c)) }}
	}
	forever := func(want, chunk string) EventFault {
		return EventFault{Want: want, Stream: func(_ *Call, say func(string) bool, _ func()) {
			for say(chunk) {
			}
		}}
	}
	return map[string]EventFault{
		"events byte by byte": {Want: Good, Stream: func(c *Call, say func(string) bool, _ func()) {
			for _, b := range []byte("event: message\ndata: " + c.Good() + "\n\n") {
				say(string(b))
			}
		}},
		"an event over lines": says(Good, func(c *Call) string { return "data: " + strings.ReplaceAll(c.Good(), ",", ",\ndata: ") + "\n\n" }),
		"CR":                  says(Good, func(c *Call) string { return ":\r\rdata:\r\revent: ping\r\ndata: {\r\n\r\ndata: " + c.Good() + "\r\r" }),
		"another endpoint": says(Good, func(c *Call) string {
			return "event: endpoint\ndata: http://169.254.169.254/\n\ndata: " + c.Good() + "\n\n"
		}),
		"an endpoint of its own": says(Good, func(c *Call) string { return "event: endpoint\ndata: /elsewhere\n\ndata: " + c.Good() + "\n\n" }),
		"an event of another kind": says(Good, func(c *Call) string {
			return "event: result\ndata: " + c.With(c.ID.String(), `"result":{}`) + "\n\ndata: " + c.Good() + "\n\n"
		}),
		"retry for ever":    says(Good, func(c *Call) string { return "retry: 31536000000\ndata: " + c.Good() + "\n\n" }),
		"NUL in an id":      says(Good, func(c *Call) string { return "id: a\x00b\ndata: " + c.Good() + "\n\n" }),
		"a long id":         says(Either, func(c *Call) string { return "id: " + strings.Repeat("x", 1<<20) + "\ndata: " + c.Good() + "\n\n" }),
		"a giant event":     forever(Bad, "data: "+strings.Repeat("x", 1<<16)+"\n"),
		"a giant line":      forever(Bad, strings.Repeat("x", 1<<16)),
		"comments for ever": forever(Endless, strings.Repeat(":\n\n", 1<<10)),
		"events of nothing": forever(Endless, "data:\n\n"),
		"ids never asked": {Want: Good, Stream: func(c *Call, say func(string) bool, _ func()) {
			for i := 1_000_000; i < 1_000_500 && say("data: "+c.With(strconv.Itoa(i), `"result":`+c.Result())+"\n\n"); i++ {
			}
			say("data: " + c.Good() + "\n\n")
		}},
		"ends the stream": {Want: Bad, Stream: func(_ *Call, _ func(string) bool, end func()) { end() }},
		"ends in an event": {Want: Bad, Stream: func(c *Call, say func(string) bool, end func()) {
			say("data: " + c.Good() + "\n")
			end()
		}},
	}
}

// PostFault is something wrong with the answer to a POST.
type PostFault struct {
	Post func(w http.ResponseWriter, r *http.Request, c *Call, e *events)
	Want string
}

// PostFaults are the wrongs that a server of HTTP+SSE does in place of taking a
// message.
func PostFaults() map[string]PostFault {
	out := map[string]PostFault{
		"answers in the body": {Want: Good, Post: func(w http.ResponseWriter, _ *http.Request, c *Call, _ *events) {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			_, _ = io.WriteString(w, c.Good())
		}},
		"takes nothing, but answers": {Want: Good, Post: func(_ http.ResponseWriter, r *http.Request, c *Call, e *events) {
			e.say(c, "data: "+c.Good()+"\n\n")
			<-r.Context().Done()
		}},
		"answers, and cuts the POST": {Want: Either, Post: func(_ http.ResponseWriter, _ *http.Request, c *Call, e *events) {
			e.say(c, "data: "+c.Good()+"\n\n")
			panic(http.ErrAbortHandler)
		}},
		"cuts the POST": {Want: Bad, Post: func(http.ResponseWriter, *http.Request, *Call, *events) { panic(http.ErrAbortHandler) }},
		"a body for ever": {Want: Endless, Post: func(w http.ResponseWriter, _ *http.Request, _ *Call, _ *events) {
			for chunk := strings.Repeat("x", 1<<16); ; {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
		}},
	}
	for _, code := range []int{301, 307, 308, 400, 401, 403, 404, 413, 500, 503} {
		out["refuses with "+strconv.Itoa(code)] = PostFault{Want: Bad, Post: func(w http.ResponseWriter, _ *http.Request, _ *Call, _ *events) {
			w.Header().Set("Location", "http://169.254.169.254/")
			http.Error(w, strings.Repeat("no ", 100_000), code)
		}}
	}
	return out
}
