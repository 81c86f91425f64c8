//go:build hostile

package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/backend"
	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// lie is what a server says in place of its answer to initialize, or to
// server/discover.
type lie struct {
	tell func(w http.ResponseWriter, r *http.Request, m *mcp.Message)
	// harmless: it may be taken for an answer.
	harmless bool
}

// lies are about the first answer. right is what it should be.
func lies(right func(m *mcp.Message) string, version string) map[string]lie {
	says := func(text func(m *mcp.Message) string) lie {
		return lie{tell: func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			_, _ = io.WriteString(w, text(m))
		}}
	}
	result := func(text string) lie {
		return says(func(m *mcp.Message) string {
			return `{"jsonrpc":"2.0","id":` + m.ID.String() + `,"result":` + text + `}`
		})
	}
	altered := func(what, into string) lie {
		return says(func(m *mcp.Message) string { return strings.Replace(right(m), what, into, 1) })
	}
	harmless := func(l lie) lie {
		l.harmless = true
		return l
	}
	status := func(code int, body string) lie {
		return lie{tell: func(w http.ResponseWriter, _ *http.Request, _ *mcp.Message) {
			w.Header().Set("Location", "http://169.254.169.254/")
			w.WriteHeader(code)
			if code != http.StatusNoContent {
				_, _ = io.WriteString(w, body)
			}
		}}
	}
	wire := func(f func(w http.ResponseWriter, r *http.Request, m *mcp.Message)) lie { return lie{tell: f} }
	out := map[string]lie{
		"result null":         result(`null`),
		"result a list":       result(`[]`),
		"result of text":      result(`"yes"`),
		"result empty":        result(`{}`),
		"an error of nothing": says(func(m *mcp.Message) string { return `{"jsonrpc":"2.0","id":` + m.ID.String() + `,"error":{}}` }),
		"an error": says(func(m *mcp.Message) string {
			return `{"jsonrpc":"2.0","id":` + m.ID.String() + `,"error":{"code":1,"message":"no"}}`
		}),
		"another id": says(func(m *mcp.Message) string { return strings.Replace(right(m), `"id":`+m.ID.String(), `"id":4711`, 1) }),
		"its id as text": harmless(says(func(m *mcp.Message) string {
			return strings.Replace(right(m), `"id":`+m.ID.String(), `"id":"`+m.ID.String()+`"`, 1)
		})),
		"no id":                says(func(m *mcp.Message) string { return strings.Replace(right(m), `"id":`+m.ID.String(), `"id":null`, 1) }),
		"twice":                harmless(says(func(m *mcp.Message) string { return right(m) + right(m) })),
		"half":                 says(func(m *mcp.Message) string { return right(m)[:len(right(m))/2] }),
		"its version a number": altered(version, `7`),
		"its version null":     altered(version, `null`),
		"another version":      altered(version, strings.ReplaceAll(strings.ReplaceAll(version, "2025-11-25", "1999-01-01"), "2026-07-28", "1999-01-01")),
		"a version of 1 MiB":   altered(version, strings.ReplaceAll(strings.ReplaceAll(version, "2025-11-25", strings.Repeat("2", 1<<20)), "2026-07-28", strings.Repeat("2", 1<<20))),
		"capabilities a list":  harmless(altered(capabilities, `[]`)),
		"capabilities null":    harmless(altered(capabilities, `null`)),
		"capabilities twice":   harmless(altered(`"capabilities":`, `"capabilities":{},"capabilities":`)),
		"Capabilities beside":  harmless(altered(`"capabilities":`, `"Capabilities":{},"capabilities":`)),
		"tools a list":         harmless(altered(`"tools":{"listChanged":true}`, `"tools":[1]`)),
		"a name that is none":  harmless(altered(`"name":"hostile"`, `"name":{"a":[]}`)),
		"a name of 1 MiB":      harmless(altered(`"name":"hostile"`, `"name":"`+strings.Repeat("x", 1<<20)+`"`)),
		"17 MiB":               altered(`"name":"hostile"`, `"name":"`+strings.Repeat("x", 17<<20)+`"`),
		"a nesting bomb":       altered(`"name":"hostile"`, `"name":`+strings.Repeat("[", 1<<20)),
		"50,000 keys":          harmless(altered(`"name":"hostile"`, keys(50_000)+`,"name":"hostile"`)),
		"result twice":         altered(`"result":`, `"result":{},"result":`),
		"Result beside":        altered(`"result":`, `"Result":{},"result":`),
		"invalid UTF-8":        altered(`"name":"hostile"`, "\"name\":\"\xff\""),
		"NUL":                  altered(`"name":"hostile"`, "\"name\":\"\x00\""),
		"asks for input":       harmless(altered(`"result":{`, `"result":{"resultType":"input_required","requestState":"x",`)),
		"202":                  status(202, ""),
		"204":                  status(204, ""),
		"200 and nothing":      status(200, ""),
		"301":                  status(301, ""),
		"307":                  status(307, ""),
		"400":                  status(400, "no"),
		"401":                  status(401, "who?"),
		"403":                  status(403, "not you"),
		"404":                  status(404, "Session not found"),
		"405":                  status(405, ""),
		"500":                  status(500, strings.Repeat("x", 1<<20)),
		"503":                  status(503, ""),
		"HTML": wire(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, right(m))
		}),
		"cut": wire(func(http.ResponseWriter, *http.Request, *mcp.Message) { panic(http.ErrAbortHandler) }),
		"cut in the body": wire(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			_, _ = io.WriteString(w, right(m)[:30])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}),
		"never": wire(func(_ http.ResponseWriter, r *http.Request, _ *mcp.Message) { <-r.Context().Done() }),
		"stays in the body": wire(func(w http.ResponseWriter, r *http.Request, m *mcp.Message) {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			_, _ = io.WriteString(w, right(m)[:30])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}),
		"a body for ever": wire(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			_, _ = io.WriteString(w, strings.TrimSuffix(right(m), "}"))
			for chunk := strings.Repeat(" ", 1<<16); ; {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
		}),
	}
	for name, text := range map[string]func(m *mcp.Message) string{
		"a stream of nothing":          func(*mcp.Message) string { return "" },
		"a stream that is cut":         func(m *mcp.Message) string { return "data: " + right(m) + "\n" },
		"a stream with another answer": func(*mcp.Message) string { return "data: {\"jsonrpc\":\"2.0\",\"id\":4711,\"result\":{}}\n\n" },
		"a stream of what is none":     func(*mcp.Message) string { return "data: {{{\n\n" },
		"an endpoint":                  func(*mcp.Message) string { return "event: endpoint\ndata: http://169.254.169.254/\n\n" },
	} {
		out[name] = wire(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) {
			w.Header().Set("Content-Type", mcp.TypeEventStream)
			_, _ = io.WriteString(w, text(m))
		})
	}
	flood := func(text string, times int) lie {
		return harmless(wire(func(w http.ResponseWriter, _ *http.Request, m *mcp.Message) {
			st := newSaid(w)
			for i := 0; i < times && st.raw(strings.ReplaceAll(text, "NUMBER", strconv.Itoa(i))) == nil; i++ {
			}
			_ = st.raw(right(m))
		}))
	}
	out["10,000 notifications first"] = flood(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x"}}`, 10_000)
	out["1,000 questions first"] = flood(`{"jsonrpc":"2.0","id":NUMBER,`+elicitation+`}`, 1000)
	out["1,000 pings first"] = flood(`{"jsonrpc":"2.0","id":NUMBER,"method":"ping"}`, 1000)
	out["notifications for ever"] = lie{tell: func(w http.ResponseWriter, r *http.Request, _ *mcp.Message) {
		for st := newSaid(w); st.raw(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x"}}`) == nil && r.Context().Err() == nil; {
			time.Sleep(time.Millisecond) // it is the test's own clock that must come to an end
		}
	}}
	return out
}

// Servers that lie before anything can be called: when a client opens a session,
// and when the gateway asks which era they speak. Every client is told in time,
// never that all is well; and when the server comes to its senses, it is served.
// The clock is the test's own.
func TestServersThatLieFromTheStart(t *testing.T) {
	sessionEra := func(m *mcp.Message) string {
		return string(mcp.NewResult(m.ID, json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"serverInfo":{"name":"hostile","version":"1"}}`)).Encode())
	}
	stateless := func(m *mcp.Message) string {
		return string(mcp.NewResult(m.ID, json.RawMessage(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+capabilities+
			`,"ttlMs":0,"cacheScope":"private","_meta":{"`+mcp.MetaServerInfo+`":{"name":"hostile","version":"1"}}}`)).Encode())
	}
	for _, era := range []struct {
		name   string
		modern bool
		step   string
		lies   map[string]lie
	}{
		{"a server with sessions", false, "POST " + mcp.MethodInitialize, lies(sessionEra, `"2025-11-25"`)},
		{"a server without", true, "POST " + mcp.MethodDiscover, lies(stateless, `["2026-07-28"]`)},
	} {
		for name, l := range era.lies {
			for _, modern := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, modern client %v", era.name, name, modern), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { liar(t, era.modern, era.step, l, modern) })
				})
			}
		}
	}
}

func liar(t *testing.T, modernServer bool, step string, l lie, modern bool) {
	t.Cleanup(func() { time.Sleep(time.Second) }) // for the server to notice
	var honest atomic.Bool
	s := &Server{Modern: modernServer, Step: func(w http.ResponseWriter, r *http.Request, at string, m *mcp.Message) bool {
		if honest.Load() || at != step {
			return false
		}
		l.tell(w, r, m)
		return true
	}}
	g := gatewayOf(t, backend.NewStreamable(backend.StreamableConfig{URL: "http://server/mcp", Transport: Wire{s}}))
	c := &Client{URL: "http://localhost/mcp", HTTP: &http.Client{Transport: Wire{g}}, Modern: modern}
	began := time.Now()
	err := tryOnce(t, c)
	took := time.Since(began)
	t.Logf("after %s: %.300v", took, err)
	if took > 2*time.Minute {
		t.Error("it took", took)
	}
	if err == nil && !l.harmless {
		t.Error("all is well, they say")
	}
	if err != nil && len(err.Error()) > 1000 {
		t.Errorf("it is told %.2000q", err)
	}
	honest.Store(true)
	if !modern {
		c = &Client{URL: c.URL, HTTP: c.HTTP}
	}
	if err := tryOnce(t, c); err != nil {
		t.Errorf("when the server is honest again: %v", err)
	}
}

// silent is a process that reads everything and says nothing.
type silent struct {
	in    io.WriteCloser
	out   *io.PipeReader
	ended chan struct{}
}

func newSilent() *silent {
	read, in := io.Pipe()
	out, say := io.Pipe()
	s := &silent{in: in, out: out, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		_, _ = io.Copy(io.Discard, read)
		_ = say.Close()
	}()
	return s
}

func (s *silent) Stdin() io.WriteCloser { return s.in }
func (s *silent) Stdout() io.Reader     { return s.out }
func (s *silent) Wait() error           { <-s.ended; return nil }

func (*silent) Frozen(context.Context) bool { return false }

func (s *silent) Stop(context.Context) error {
	_ = s.in.Close()
	<-s.ended
	return nil
}

// A process that never answers is no reason to wait for ever. The clock is the
// test's own.
func TestStdioServersThatNeverAnswer(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprint("modern client ", modern), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := gatewayOf(t, backend.NewStdio(backend.StdioConfig{Spawn: func(context.Context) (guest.Process, error) { return newSilent(), nil }}))
				c := &Client{URL: "http://localhost/mcp", HTTP: &http.Client{Transport: Wire{g}}, Modern: modern}
				began := time.Now()
				if err := tryOnce(t, c); err == nil || time.Since(began) > 3*time.Minute {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
			})
		})
	}
}
