package backend

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/test/leak"
)

// serverRole names the variable that makes the test binary a stdio server.
const serverRole = "THV_TEST_STDIO_SERVER"

// programDir is where tests build programs.
var programDir string

func TestMain(m *testing.M) {
	switch os.Getenv(serverRole) {
	case "":
		os.Exit(inProgramDir(m))
	case "fixture":
		if err := newFixture().server.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "http":
		if err := serveHTTP(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "crude":
		newCrude().serve()
	case "modern":
		c := newCrude()
		c.modern = true
		c.serve()
	case "refusing": // answers server/discover with an error
		c := newCrude()
		c.refuses = true
		c.serve()
	case "shy": // exits after the first line
		_, _ = bufio.NewReader(os.Stdin).ReadBytes('\n')
		os.Exit(4)
	case "mute": // reads nothing and writes nothing
		signal.Ignore(syscall.SIGTERM)
		for {
			time.Sleep(time.Hour)
		}
	case "mumbling": // writes a line that is no message for the first it reads, and nothing else
		signal.Ignore(syscall.SIGTERM)
		_, _ = bufio.NewReader(os.Stdin).ReadBytes('\n')
		fmt.Println("hm")
		for {
			time.Sleep(time.Hour)
		}
	case "stillborn":
		fmt.Fprintln(os.Stderr, "no API key")
		os.Exit(78)
	case "babbling":
		for {
			fmt.Println("Traceback (most recent call last):")
		}
	}
}

func inProgramDir(m *testing.M) int {
	dir, err := os.MkdirTemp("", "thv-backend-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programDir = dir
	// The tests wait more than they compute.
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return leak.Run(m)
}

// crude is a stdio server written by hand, which does what a tool's name says,
// however wrong.
type crude struct {
	out       *bufio.Writer
	lines     *bufio.Reader
	inits     []string
	cancelled []string
	unread    int      // requests that could not be parsed
	noted     string   // the file that cancellations are written to
	watched   []string // resources that are subscribed to
	held      map[string]*mcp.Message
	level     string
	listens   []mcp.ID
	modern    bool                    // speaks the stateless era
	refuses   bool                    // answers server/discover with an error
	asked     map[string]*mcp.Message // questions to the client: the call to answer
}

func newCrude() *crude {
	return &crude{
		out: bufio.NewWriter(os.Stdout), lines: bufio.NewReaderSize(os.Stdin, 1<<20),
		held: map[string]*mcp.Message{}, asked: map[string]*mcp.Message{},
	}
}

func (c *crude) serve() {
	for {
		line, err := c.lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if bytes.Contains(line, []byte(`"cannot be parsed"`)) {
			c.unread++
			c.raw(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"I could not read that"}}`)
			c.out.Flush()
			continue
		}
		m, err := mcp.Parse(line)
		if err != nil {
			fmt.Fprintln(os.Stderr, "the gateway wrote", err)
			os.Exit(99)
		}
		c.take(m)
		c.out.Flush()
	}
}

func (c *crude) take(m *mcp.Message) {
	switch {
	case m.Kind() == mcp.Response:
		call := c.asked[m.ID.String()]
		if call == nil {
			os.Exit(98) // an answer to something that was never asked
		}
		delete(c.asked, m.ID.String())
		if c.level != "" {
			c.note(mcp.NotificationMessage, fmt.Sprintf(`{"level":%q,"data":"answered"}`, c.level))
		}
		c.answer(call, string(m.Encode()))
	case m.Method == mcp.NotificationCancelled:
		c.cancelled = append(c.cancelled, string(m.Params))
		if c.noted != "" {
			_ = os.WriteFile(c.noted, m.Params, 0o600) // the test misses it
		}
	case m.Method == mcp.MethodInitialize:
		c.inits = append(c.inits, string(m.Params))
		version, _, _ := mcp.LookupString(m.Params, "protocolVersion")
		c.write(mcp.NewResult(m.ID, json.RawMessage(fmt.Sprintf(
			`{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true},"logging":{},"resources":{"subscribe":true}},"serverInfo":{"name":"crude","version":"1"}}`, version))))
	case m.Method == mcp.MethodDiscover && c.modern:
		c.write(mcp.NewResult(m.ID, json.RawMessage(
			`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"private"}`)))
	case m.Method == mcp.MethodDiscover && c.refuses:
		c.write(mcp.NewError(m.ID, mcp.CodeInvalidParams, "received a request before initialization was complete"))
	case m.Method == mcp.MethodSubscriptionsListen && strings.Contains(string(m.Params), `"a:unwanted"`):
		c.held["a:unwanted"] = m
	case m.Method == mcp.MethodSubscriptionsListen:
		c.listens = append(c.listens, m.ID)
		c.note(mcp.NotificationSubscribed, fmt.Sprintf(`{"notifications":{"toolsListChanged":true},"_meta":{%q:%s}}`, mcp.MetaSubscription, m.ID))
	case m.Method == mcp.MethodSetLevel:
		c.level, _, _ = mcp.LookupString(m.Params, "level")
		c.write(mcp.NewResult(m.ID, json.RawMessage(`{}`)))
	case m.Method == mcp.MethodResourcesSubscribe || m.Method == mcp.MethodResourcesUnsubscribe:
		uri, _, _ := mcp.LookupString(m.Params, "uri")
		c.watched = slices.DeleteFunc(c.watched, func(u string) bool { return u == uri })
		if m.Method == mcp.MethodResourcesSubscribe {
			c.watched = append(c.watched, uri)
		}
		c.write(mcp.NewResult(m.ID, json.RawMessage(`{}`)))
	case m.Method == mcp.MethodToolsCall:
		tool, _, _ := mcp.LookupString(m.Params, "name")
		args, _, _ := mcp.LookupString(m.Params, "arguments", "is")
		c.call(m, tool, args)
	case m.Kind() == mcp.Request:
		c.write(mcp.NewResult(m.ID, json.RawMessage(`{}`)))
	}
}

func (c *crude) call(m *mcp.Message, tool, args string) {
	switch tool {
	case "echo":
		c.answer(m, args)
	case "block": // as a server does that runs tools on the thread that reads
		d, _ := time.ParseDuration(args)
		time.Sleep(d)
		c.answer(m, "done")
	case "pid":
		c.answer(m, fmt.Sprint(os.Getpid()))
	case "unread":
		c.answer(m, fmt.Sprint(c.unread))
	case "inits":
		c.answer(m, strings.Join(c.inits, "\n"))
	case "watched":
		c.answer(m, strings.Join(c.watched, " "))
	case "level":
		c.answer(m, c.level)
	case "note cancellations":
		c.noted = args
		c.answer(m, "noted")
	case "cancelled":
		c.answer(m, strings.Join(c.cancelled, "\n"))
	case "hold":
		c.held[args] = m
	case "holds":
		answer := "nothing"
		if held := c.held[args]; held != nil {
			answer = held.ID.String()
		}
		c.answer(m, answer)
	case "release":
		if held := c.held[args]; held != nil {
			delete(c.held, args)
			c.answer(held, args)
		}
		c.answer(m, "released")
	case "progress of":
		token, _, _ := mcp.Lookup(c.held[args].Params, "_meta", "progressToken")
		c.note(mcp.NotificationProgress, fmt.Sprintf(`{"progressToken":%s,"progress":1,"message":%q}`, token, args))
		c.answer(m, "said")
	case "made up progress":
		for _, token := range []string{`"x"`, `999999`, `1`, `{}`, `null`, `"1"`} {
			c.note(mcp.NotificationProgress, `{"progressToken":`+token+`,"progress":66}`)
		}
		c.answer(m, "said")
	case "log":
		c.note(mcp.NotificationMessage, fmt.Sprintf(`{"level":"info","data":%q}`, args))
		c.answer(m, "logged")
	case "changed":
		c.note(mcp.NotificationToolsChanged, `{}`)
		c.answer(m, "changed")
	case "updated":
		c.note(mcp.NotificationResourceUpdated, `{"uri":"a:b"}`)
		c.answer(m, "updated")
	case "params":
		c.answer(m, string(m.Params))
	case "changed for all": // one for each subscription, the newest first
		for _, id := range slices.Backward(c.listens) {
			c.note(mcp.NotificationToolsChanged, fmt.Sprintf(`{"_meta":{%q:%s}}`, mcp.MetaSubscription, id))
		}
		c.answer(m, "changed")
	case "changed for unknown subscriptions":
		for _, id := range []string{`999999`, `"1"`, `{}`, `null`, `-1`, m.ID.String()} {
			c.note(mcp.NotificationToolsChanged, fmt.Sprintf(`{"_meta":{%q:%s}}`, mcp.MetaSubscription, id))
		}
		c.answer(m, "changed")
	case "end subscriptions":
		for _, id := range c.listens {
			if args == "result" {
				c.write(mcp.NewResult(id, json.RawMessage(fmt.Sprintf(`{"resultType":"complete","_meta":{%q:%s}}`, mcp.MetaSubscription, id))))
			} else {
				c.note(mcp.NotificationCancelled, fmt.Sprintf(`{"requestId":%s}`, id))
			}
		}
		c.listens = nil
		c.answer(m, "ended")
	case "refuse":
		c.write(mcp.NewError(c.held[args].ID, mcp.CodeInvalidParams, "not that"))
		c.answer(m, "refused")
	case "cancel calls":
		c.note(mcp.NotificationCancelled, fmt.Sprintf(`{"requestId":%s}`, m.ID))
		for _, held := range c.held {
			c.note(mcp.NotificationCancelled, fmt.Sprintf(`{"requestId":%s}`, held.ID))
		}
		c.answer(m, "cancelled")
	case "era":
		c.write(&mcp.Message{ID: m.ID, Error: &mcp.Error{Code: mcp.CodeUnsupportedVersion, Message: "no", Data: json.RawMessage(args)}})
	case "ask":
		id := mcp.StringID("question " + args)
		c.asked[id.String()] = m
		c.write(&mcp.Message{ID: id, Method: args, Params: json.RawMessage(`{}`)})
	case "take back":
		c.write(&mcp.Message{ID: mcp.IntID(77), Method: mcp.MethodSampling, Params: json.RawMessage(`{}`)})
		c.note(mcp.NotificationCancelled, `{"requestId":77}`)
		c.answer(m, "taken back")
	default:
		c.misbehave(m, tool, args)
	}
}

func (c *crude) misbehave(m *mcp.Message, tool, args string) {
	switch tool {
	case "silent":
	case "die":
		os.Exit(3)
	case "crash":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Hour) // select{} would be a deadlock, which ends the process
	case "close output":
		os.Stdout.Close()
		time.Sleep(time.Hour)
	case "stop reading":
		c.answer(m, "stopped")
		c.out.Flush()
		time.Sleep(time.Hour)
	case "garbage":
		for range 500 {
			c.raw("Listening on stdio...", "", "\x00\xff\xfe", `{"level":"info","msg":"structured, and no message"}`, "[]", "null", `{"jsonrpc":"2.0","id":`)
			c.note(mcp.NotificationMessage, `{"level":"debug","data":"in between"}`)
		}
		c.answer(m, "sober")
	case "endless line":
		for range 20 {
			c.out.WriteString(strings.Repeat("x", 1<<20))
		}
	case "wrong ids":
		for _, id := range []string{"0", "424242", `"x` + m.ID.String() + `"`, "-1", "1.5", "null"} {
			c.raw(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"wrong"}]}}`)
		}
		c.answer(m, "right")
	case "twice":
		c.answer(m, "first")
		c.answer(m, "second")
	case "unreadable":
		c.raw(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"result":{},"error":{"code":1,"message":"both"}}`)
	case "without id":
		c.raw(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"I could not read that"}}`)
	case "another spelling":
		c.raw(`{"jsonrpc":"2.0","id":` + m.ID.String() + `.0,"result":{"content":[{"type":"text","text":"right"}]}}`)
	case "the number as text":
		c.raw(`{"jsonrpc":"2.0","id":"` + m.ID.String() + `","result":{"content":[{"type":"text","text":"right"}]}}`)
	case "not a number":
		c.raw(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"result":{"structuredContent":{"ratio":NaN}}}`)
	case "not a number, and the id behind it":
		c.raw(`{"result":{"structuredContent":{"ratio":NaN}},"jsonrpc":"2.0","id":` + m.ID.String() + `}`)
	case "not UTF-8":
		c.raw(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"result":{"content":[{"type":"text","text":"` + "M\xfcnchen" + `"}]}}`)
	case "a question that cannot be read":
		c.raw(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"method":"sampling/createMessage","params":{"temperature":NaN}}`)
		c.answer(m, "right")
	case "answers to notifications":
		for _, outcome := range []string{`"error":{"code":-32601,"message":"no such method"}`, `"result":{}`} {
			c.raw(`{"jsonrpc":"2.0","id":null,` + outcome + `}`)
		}
		c.answer(m, "right")
	case "flood":
		for i := range 20000 {
			c.note(mcp.NotificationProgress, fmt.Sprintf(`{"progressToken":"unknown","progress":%d}`, i))
			c.write(&mcp.Message{ID: mcp.IntID(int64(i)), Method: mcp.MethodSampling, Params: json.RawMessage(`{}`)})
		}
		c.raw(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"result":{"content":[{"type":"text","text":"after the flood"}]}}`)
		c.out.Flush()
		for { // the refusals are for questions that were never noted down
			if _, err := c.lines.ReadBytes('\n'); err != nil {
				os.Exit(0)
			}
		}
	case "flood of progress":
		n, _ := strconv.Atoi(args)
		token, _, _ := mcp.Lookup(m.Params, "_meta", "progressToken")
		for i := range n {
			c.note(mcp.NotificationProgress, fmt.Sprintf(`{"progressToken":%s,"progress":%d,"message":%q}`, token, i, strings.Repeat("x", 16<<10)))
		}
		c.answer(m, "after the flood")
	case "ask forever":
		for i := int64(0); ; i++ {
			c.write(&mcp.Message{ID: mcp.IntID(i), Method: mcp.MethodSampling, Params: json.RawMessage(`{}`)})
		}
	case "indented":
		c.raw("{", `  "jsonrpc": "2.0",`, `  "id": `+m.ID.String()+`,`, `  "result": {`, `    "content": [ {"type": "text",`, `      "text": "joined } ] \" {" } ]`, "  }", "}")
	case "cut off":
		c.raw(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"result":{"content":[`)
	case "a line break in a text":
		c.raw(`{"jsonrpc":"2.0","id":`+m.ID.String()+`,"result":{"content":[{"type":"text","text":"one`, `two"}]}}`)
	case "more members":
		c.raw(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"result":{"content":[{"type":"text","text":"read"}]},"elapsed":1,"trace":{"a":[]}}`)
	case "error with more members":
		c.raw(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"error":{"code":-32000.0,"message":"no luck","stack":["x"]},"elapsed":1}`)
	case "split":
		c.out.WriteString(`{"jsonrpc":"2.0",`)
		c.out.Flush()
		time.Sleep(20 * time.Millisecond)
		c.raw(`"id":` + m.ID.String() + `,"result":{"content":[{"type":"text","text":"joined"}]}}` + "\r")
	default:
		c.write(mcp.NewError(m.ID, mcp.CodeInvalidParams, "no such tool: "+tool+" "+args))
	}
}

func (c *crude) answer(m *mcp.Message, text string) {
	raw, err := json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}})
	if err != nil {
		panic(err)
	}
	c.write(mcp.NewResult(m.ID, raw))
}

func (c *crude) note(method, params string) {
	c.write(&mcp.Message{Method: method, Params: json.RawMessage(params)})
}

func (c *crude) write(m *mcp.Message) { c.raw(string(m.Encode())) }

func (c *crude) raw(lines ...string) {
	for _, l := range lines {
		c.out.WriteString(l + "\n")
	}
}
