package hostile

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Stdio is a server on standard input and output, with the tools of [Server] as
// far as they are possible there, and these: "stops reading" reads nothing more;
// "exits" ends in the middle of a line.
type Stdio struct {
	Modern bool
	// Version is what it answers initialize with; "" is 2025-11-25.
	Version string
	In      io.Reader
	Out     io.Writer

	mu        sync.Mutex // of Out and cancelled
	cancelled map[string]bool
}

// Serve serves until its input ends. exit is what "exits" calls.
func (s *Stdio) Serve(exit func()) {
	lines := bufio.NewReaderSize(s.In, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		m, err := mcp.Parse(line)
		if err != nil {
			continue
		}
		if tool, _, _ := mcp.LookupString(m.Params, "name"); tool == "stops reading" {
			time.Sleep(time.Hour) // select{} would be a deadlock, which ends the process
		}
		s.take(m, exit)
	}
}

func (s *Stdio) take(m *mcp.Message, exit func()) {
	complete := ""
	if s.Modern {
		complete = `"resultType":"complete","ttlMs":0,"cacheScope":"private",`
	}
	switch {
	case m.Kind() == mcp.Response:
	case m.Method == mcp.NotificationCancelled:
		raw, _, _ := mcp.Lookup(m.Params, "requestId")
		s.mu.Lock()
		if s.cancelled == nil {
			s.cancelled = map[string]bool{}
		}
		s.cancelled[string(raw)] = true
		s.mu.Unlock()
	case m.Kind() == mcp.Notification:
	case m.Method == mcp.MethodInitialize && !s.Modern:
		version := "2025-11-25"
		if s.Version != "" {
			version = s.Version
		}
		s.line(string(mcp.NewResult(m.ID, json.RawMessage(`{"protocolVersion":"`+version+`","capabilities":`+capabilities+`,"serverInfo":{"name":"hostile","version":"1"}}`)).Encode()))
	case m.Method == mcp.MethodDiscover && s.Modern:
		s.line(string(mcp.NewResult(m.ID, json.RawMessage(`{`+complete+`"supportedVersions":["2026-07-28"],"capabilities":`+capabilities+`}`)).Encode()))
	case m.Method == mcp.MethodToolsCall:
		go s.call(callOf(m, s.Modern), exit)
	case m.Method == mcp.MethodToolsList:
		s.line(string(mcp.NewResult(m.ID, json.RawMessage(`{`+complete+`"tools":[{"name":"good","inputSchema":{"type":"object"}}]}`)).Encode()))
	default:
		s.line(string(mcp.NewError(m.ID, mcp.CodeMethodNotFound, "no "+m.Method).Encode()))
	}
}

func (s *Stdio) call(c *Call, exit func()) {
	if c.Tool == "exits" {
		s.mu.Lock()
		_, _ = io.WriteString(s.Out, c.Good()[:20])
		exit()
	}
	fault, wrong := Faults[c.Tool]
	if !wrong || fault.Say == nil {
		s.line(c.Good())
		return
	}
	fault.Say(c, func(text string) bool { return s.line(text) && !s.isCancelled(c.ID) })
	// What it said may have been for nobody, so it ends the call as it should.
	time.Sleep(50 * time.Millisecond)
	s.line(c.With(c.ID.String(), fmt.Sprintf(`"error":{"code":1,"message":%q}`, "sorry for: "+c.Tool)))
}

func (s *Stdio) isCancelled(id mcp.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cancelled[id.String()]
}

func (s *Stdio) line(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := io.WriteString(s.Out, text+"\n")
	return err == nil
}
