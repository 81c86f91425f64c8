package hostile

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// What a client must get that calls a wrong tool.
const (
	Good    = "good"    // the right answer
	Bad     = "error"   // an error
	Either  = "either"  // one of both
	Endless = "endless" // neither, but it can cancel, and the server hears of it
)

// Fault is something wrong that a server does when a tool is called.
type Fault struct {
	// Say says texts, which should be messages, one event or line each, until say
	// returns false.
	Say func(c *Call, say func(text string) bool)
	// Many: it needs to say several, so a body of JSON will not do.
	Many bool
	// Wire does something only HTTP can.
	Wire func(w http.ResponseWriter, r *http.Request, c *Call)
	// Want is what the client must get. Modern is that of a modern server, and
	// Stdio that of any on stdio, where they differ.
	Want, Modern, Stdio string
	// Fatal: on stdio it is the end of the process.
	Fatal bool
}

// Faults are the wrongs, by the name of their tool.
var Faults = faults()

func faults() map[string]Fault {
	all := map[string]Fault{}
	for _, some := range []map[string]Fault{envelopes(), answers(), floods(), requirements(), bodies()} {
		maps.Copy(all, some)
	}
	return all
}

// says is a fault that says one text, and then the right answer on a stream.
func says(want string, text func(c *Call) string) Fault {
	return Fault{Want: want, Say: func(c *Call, say func(string) bool) { say(text(c)) }}
}

// thenGood says several texts and then the right answer.
func thenGood(texts func(c *Call, say func(string) bool)) Fault {
	return Fault{Want: Good, Many: true, Say: func(c *Call, say func(string) bool) {
		ok := true
		texts(c, func(s string) bool { ok = ok && say(s); return ok })
		if ok {
			say(c.Good())
		}
	}}
}

// envelopes are answers that are no JSON-RPC messages.
func envelopes() map[string]Fault {
	all := map[string]func(c *Call) string{
		"cut off":               func(c *Call) string { return c.Good()[:40] },
		"not JSON":              func(*Call) string { return "{answer}" },
		"a batch":               func(c *Call) string { return "[" + c.Good() + "]" },
		"result and error":      func(c *Call) string { return c.With(c.ID.String(), `"result":{},"error":{"code":1,"message":"x"}`) },
		"neither":               func(c *Call) string { return `{"jsonrpc":"2.0","id":` + c.ID.String() + `}` },
		"id twice":              func(c *Call) string { return c.With(c.ID.String(), `"id":1,"result":`+c.Result()) },
		"result twice":          func(c *Call) string { return c.With(c.ID.String(), `"result":{},"result":`+c.Result()) },
		"Result beside result":  func(c *Call) string { return c.With(c.ID.String(), `"Result":{},"result":`+c.Result()) },
		"escaped key twice":     func(c *Call) string { return c.With(c.ID.String(), `"r\u0065sult":{},"result":`+c.Result()) },
		"no version":            func(c *Call) string { return strings.Replace(c.Good(), `"jsonrpc":"2.0",`, "", 1) },
		"another version":       func(c *Call) string { return strings.Replace(c.Good(), `"2.0"`, `"1.0"`, 1) },
		"invalid UTF-8":         func(c *Call) string { return c.With(c.ID.String(), "\"result\":{\"content\":\"\xff\xfe\"}") },
		"half a surrogate key":  func(c *Call) string { return c.With(c.ID.String(), `"\ud800":1,"result":`+c.Result()) },
		"NUL":                   func(c *Call) string { return c.With(c.ID.String(), "\"result\":{\"x\":\"\x00\"}") },
		"result null":           func(c *Call) string { return c.With(c.ID.String(), `"result":null`) },
		"result of text":        func(c *Call) string { return c.With(c.ID.String(), `"result":"done"`) },
		"error without code":    func(c *Call) string { return c.With(c.ID.String(), `"error":{"message":"x"}`) },
		"error code too large":  func(c *Call) string { return c.With(c.ID.String(), `"error":{"code":1e300,"message":"x"}`) },
		"arrays in arrays":      func(c *Call) string { return c.With(c.ID.String(), `"result":`+strings.Repeat("[", 1<<20)) },
		"objects in objects":    func(c *Call) string { return c.With(c.ID.String(), `"result":`+nested(100_000)) },
		"a message of 17 MiB":   func(c *Call) string { return c.With(c.ID.String(), `"result":{"x":"`+strings.Repeat("x", 17<<20)+`"}`) },
		"50,000 keys":           func(c *Call) string { return c.With(c.ID.String(), `"result":{`+keys(50_000)+`}`) + "x" },
		"a number without end":  func(c *Call) string { return c.With(strings.Repeat("1", 1<<20), `"result":{}`) },
		"text after the answer": func(c *Call) string { return c.Good() + " and more" },
	}
	out := map[string]Fault{}
	for name, text := range all {
		// A stdio server may write what it likes to its output beside messages, so
		// such a line is its business; it then says nothing more, and ends.
		out[name] = says(Bad, text)
		if f := out[name]; name == "a message of 17 MiB" {
			f.Fatal = true
			out[name] = f
		}
	}
	return out
}

func nested(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }

func keys(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + strconv.Itoa(i) + `":0`)
	}
	return b.String()
}

// answers are messages that answer something else.
func answers() map[string]Fault {
	return map[string]Fault{
		"an id never asked": {Want: Bad, Say: func(c *Call, say func(string) bool) { say(c.With("4711", `"result":`+c.Result())) }},
		"the id as text": {Want: Good, Modern: Bad, Stdio: Good, Say: func(c *Call, say func(string) bool) {
			say(c.With(strconv.Quote(c.ID.String()), `"result":`+c.Result()))
		}},
		"the id as a fraction": {Want: Bad, Say: func(c *Call, say func(string) bool) {
			say(c.With(strings.Trim(c.ID.String(), `"`)+".5", `"result":`+c.Result()))
		}},
		"no id": {Want: Bad, Say: func(c *Call, say func(string) bool) { say(c.With("null", `"result":`+c.Result())) }},
		"twice": {Want: Good, Many: true, Say: func(c *Call, say func(string) bool) {
			say(c.Good())
			say(c.Good())
			say(c.With(c.ID.String(), `"error":{"code":1,"message":"changed my mind"}`))
		}},
		"other ids first": {Want: Good, Modern: Bad, Stdio: Good, Many: true, Say: func(c *Call, say func(string) bool) {
			for id := 100_000; id < 100_100 && say(c.With(strconv.Itoa(id), `"result":{"content":[]}`)); id++ {
			}
			say(c.Good())
		}},
		"cancels the call": thenGood(func(c *Call, say func(string) bool) {
			say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + c.ID.String() + `}}`)
		}),
		"progress of nobody": thenGood(func(_ *Call, say func(string) bool) {
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"nobody's","progress":1}}`)
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{},"progress":"x"}}`)
			say(`{"jsonrpc":"2.0","method":"notifications/progress"}`)
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":[]}`)
		}),
		"an unknown notification": thenGood(func(_ *Call, say func(string) bool) {
			say(`{"jsonrpc":"2.0","method":"notifications/\n\n","params":{"a":1}}`)
			say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":1}}`)
		}),
		// What nobody can read may have been the answer. On stdio it is a line that
		// is none of ours.
		"NUL in a method": {Want: Bad, Stdio: Good, Many: true, Say: func(c *Call, say func(string) bool) {
			say(`{"jsonrpc":"2.0","method":"notifications/\u0000\n\n","params":{"a":1}}`)
			say(`{"jsonrpc":"2.0","id":5,"method":"x\u0000\n"}`)
			say(c.Good())
		}},
	}
}

const elicitation = `"method":"elicitation/create","params":{"message":"who are you?","requestedSchema":{"type":"object","properties":{}}}`

// floods are too much of something.
func floods() map[string]Fault {
	return map[string]Fault{
		"5,000 notifications": thenGood(func(c *Call, say func(string) bool) {
			for i := 0; i < 5_000 && say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"%d %s %01000d"}}`, i, c.Nonce, 0)); i++ {
			}
		}),
		"3,000 changes": thenGood(func(_ *Call, say func(string) bool) {
			for i := 0; i < 3_000 && say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`); i++ {
			}
		}),
		"notifications of 1 MiB": thenGood(func(_ *Call, say func(string) bool) {
			for i := 0; i < 12 && say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"`+strings.Repeat("x", 1<<20)+`"}}`); i++ {
			}
		}),
		"2,000 questions": thenGood(func(_ *Call, say func(string) bool) {
			for i := 0; i < 2_000 && say(`{"jsonrpc":"2.0","id":`+strconv.Itoa(i)+`,`+elicitation+`}`); i++ {
			}
		}),
		"2,000 questions of one id": thenGood(func(_ *Call, say func(string) bool) {
			for i := 0; i < 2_000 && say(`{"jsonrpc":"2.0","id":"same",`+elicitation+`}`); i++ {
			}
		}),
		"2,000 pings": thenGood(func(_ *Call, say func(string) bool) {
			for i := 0; i < 2_000 && say(`{"jsonrpc":"2.0","id":`+strconv.Itoa(i)+`,"method":"ping"}`); i++ {
			}
		}),
		"unknown questions": thenGood(func(_ *Call, say func(string) bool) {
			say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}`)
			say(`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}`)
			say(`{"jsonrpc":"2.0","id":3,"method":"elicitation/create","params":[]}`)
			say(`{"jsonrpc":"2.0","id":4,"method":"elicitation/create"}`)
			say(`{"jsonrpc":"2.0","id":5,"method":"x\n"}`)
		}),
		"notifications for ever": {Want: Endless, Many: true, Say: func(c *Call, say func(string) bool) {
			for say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"` + c.Nonce + `"}}`) {
			}
		}},
		"questions for ever": {Want: Endless, Many: true, Say: func(_ *Call, say func(string) bool) {
			for i := 0; say(`{"jsonrpc":"2.0","id":` + strconv.Itoa(i) + `,` + elicitation + `}`); i++ {
			}
		}},
	}
}

// requirements are results of the stateless era that the gateway looks into.
func requirements() map[string]Fault {
	result := func(members string) Fault {
		// A server of the session era may put there what it likes, and a client of the
		// stateless era at a server of it gets these as they are: they are its own to
		// judge. What must not be is that a client is told that all is well.
		return says(Either, func(c *Call) string { return c.With(c.ID.String(), `"result":{`+members+`}`) })
	}
	ask := `{"method":"elicitation/create","params":{"message":"x","requestedSchema":{"type":"object","properties":{}}}}`
	out := map[string]Fault{
		"resultType twice":          result(`"resultType":"complete","resultType":"input_required","inputRequests":{"a":` + ask + `}`),
		"ResultType beside":         result(`"resultType":"input_required","ResultType":"complete","inputRequests":{"a":` + ask + `}`),
		"resultType escaped":        result(`"r\u0065sultType":"input_required","resultType":"complete","inputRequests":{"a":` + ask + `}`),
		"requestState twice":        result(`"resultType":"input_required","requestState":"a","requestState":"b","inputRequests":{"a":` + ask + `}`),
		"RequestState beside":       result(`"resultType":"input_required","requestState":"a","RequestState":"b","inputRequests":{"a":` + ask + `}`),
		"inputRequests twice":       result(`"resultType":"input_required","inputRequests":{"a":` + ask + `},"inputRequests":{}`),
		"requestState a number":     result(`"resultType":"input_required","requestState":7,"inputRequests":{"a":` + ask + `}`),
		"input_required of nothing": result(`"resultType":"input_required"`),
		"a resultType unknown":      result(`"resultType":"surprise"`),
		"resultType a number":       result(`"resultType":1`),
		"asks for ever":             result(`"resultType":"input_required","inputRequests":{"a":` + ask + `}`),
		"puts off for ever":         result(`"resultType":"input_required","requestState":"later"`),
		"asks what nobody is asked": result(`"resultType":"input_required","inputRequests":{"a":{"method":"tools/call","params":{}}}`),
		"asks nothing readable":     result(`"resultType":"input_required","inputRequests":{"a":7}`),
		"inputRequests a list":      result(`"resultType":"input_required","inputRequests":[` + ask + `]`),
	}
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, `"%d":%s,`, i, ask)
	}
	out["asks 1,000 things"] = result(`"resultType":"input_required","inputRequests":{` + strings.TrimSuffix(many.String(), ",") + `}`)
	return out
}

// bodies are HTTP responses that are wrong in themselves.
func bodies() map[string]Fault {
	wire := func(want string, f func(w http.ResponseWriter, r *http.Request, c *Call)) Fault {
		return Fault{Want: want, Wire: f}
	}
	typed := func(t string) Fault {
		return wire(Bad, func(w http.ResponseWriter, _ *http.Request, c *Call) {
			w.Header()["Content-Type"] = []string{t}
			_, _ = io.WriteString(w, c.Good())
		})
	}
	status := func(code int, body string) Fault {
		return wire(Bad, func(w http.ResponseWriter, _ *http.Request, _ *Call) {
			w.Header().Set("Location", "http://169.254.169.254/")
			w.WriteHeader(code)
			if code != http.StatusNoContent {
				_, _ = io.WriteString(w, body)
			}
		})
	}
	stream := func(want string, text func(c *Call) string) Fault {
		return wire(want, func(w http.ResponseWriter, _ *http.Request, c *Call) {
			w.Header().Set("Content-Type", mcp.TypeEventStream)
			_, _ = io.WriteString(w, text(c))
		})
	}
	out := map[string]Fault{
		"HTML":              typed("text/html"),
		"no content type":   typed(""),
		"two content types": typed("application/json, text/event-stream"),
		"redirect 301":      status(301, ""),
		"redirect 307":      status(307, ""),
		"redirect 308":      status(308, ""),
		"202":               status(202, ""),
		"204":               status(204, ""),
		"200 and nothing":   status(200, ""),
		"401":               status(401, "who?"),
		"413":               status(413, "<html>"),
		"500":               status(500, strings.Repeat("x", 1<<20)),
		"503":               status(503, ""),
		"closes before headers": wire(Bad, func(http.ResponseWriter, *http.Request, *Call) {
			panic(http.ErrAbortHandler)
		}),
		"closes after headers": wire(Bad, func(w http.ResponseWriter, _ *http.Request, _ *Call) {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}),
		"closes in the body": wire(Bad, func(w http.ResponseWriter, _ *http.Request, c *Call) {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			_, _ = io.WriteString(w, c.Good()[:30])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}),
		"promises more": wire(Bad, func(w http.ResponseWriter, _ *http.Request, c *Call) {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			w.Header().Set("Content-Length", strconv.Itoa(len(c.Good())+100))
			_, _ = io.WriteString(w, c.Good())
		}),
		"a body without end": wire(Bad, func(w http.ResponseWriter, _ *http.Request, c *Call) {
			w.Header().Set("Content-Type", mcp.TypeJSON)
			_, _ = io.WriteString(w, strings.TrimSuffix(c.Good(), "}"))
			for chunk := strings.Repeat(" ", 1<<16); ; {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
		}),
		"an event without end": wire(Bad, func(w http.ResponseWriter, _ *http.Request, _ *Call) {
			w.Header().Set("Content-Type", mcp.TypeEventStream)
			for chunk := "data: " + strings.Repeat("x", 1<<16) + "\n"; ; {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
		}),
		"a line without end": wire(Bad, func(w http.ResponseWriter, _ *http.Request, _ *Call) {
			w.Header().Set("Content-Type", mcp.TypeEventStream)
			for chunk := strings.Repeat("x", 1<<16); ; {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
		}),
		"comments without end": wire(Endless, func(w http.ResponseWriter, _ *http.Request, _ *Call) {
			w.Header().Set("Content-Type", mcp.TypeEventStream)
			for chunk := strings.Repeat(":\n\n", 1<<10); ; {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
		}),
		"an answer byte by byte": wire(Good, func(w http.ResponseWriter, _ *http.Request, c *Call) {
			w.Header().Set("Content-Type", mcp.TypeEventStream)
			for _, b := range []byte("event: message\ndata: " + c.Good() + "\n\n") {
				_, _ = w.Write([]byte{b})
				_ = http.NewResponseController(w).Flush()
			}
		}),
		"CR and BOM": stream(Good, func(c *Call) string {
			return "\xef\xbb\xbf:\r\rid: 5\rretry: 1\rdata:\r\revent: ping\r\ndata: {\r\n\r\ndata: " + c.Good() + "\r\r"
		}),
		"an answer over lines":      stream(Good, func(c *Call) string { return "data: " + strings.ReplaceAll(c.Good(), ",", ",\ndata: ") + "\n\n" }),
		"NUL in the event id":       stream(Good, func(c *Call) string { return "id: a\x00b\ndata: " + c.Good() + "\n\n" }),
		"an id of 1 MiB":            stream(Either, func(c *Call) string { return "id: " + strings.Repeat("x", 1<<20) + "\ndata: " + c.Good() + "\n\n" }),
		"an event id with controls": stream(Bad, func(*Call) string { return "id: a\x01\x7f: b\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n" }),
		"an answer cut off":         stream(Bad, func(c *Call) string { return "data: " + c.Good() + "\n" }),
		"a stream of nothing":       stream(Bad, func(*Call) string { return "" }),
		"an endpoint event":         stream(Bad, func(*Call) string { return "event: endpoint\ndata: http://169.254.169.254/\n\n" }),
		"retry for a year":          stream(Bad, func(*Call) string { return "retry: 31536000000\ndata:\n\n" }),
		"an encoding it has not": wire(Either, func(w http.ResponseWriter, _ *http.Request, c *Call) {
			w.Header().Set("Content-Encoding", "br")
			w.Header().Set("Content-Type", mcp.TypeJSON)
			_, _ = io.WriteString(w, c.Good())
		}),
		"a header of 1 MiB": wire(Bad, func(w http.ResponseWriter, _ *http.Request, c *Call) {
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
			w.Header().Set("Content-Type", mcp.TypeJSON)
			_, _ = io.WriteString(w, c.Good())
		}),
	}
	// 404 and 400 may be said because of the era, or of the session.
	for code := range map[int]bool{400: true, 404: true, 405: true} {
		out[strconv.Itoa(code)] = status(code, "Session not found")
		out[strconv.Itoa(code)+" with -32001"] = status(code, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`)
	}
	return out
}
