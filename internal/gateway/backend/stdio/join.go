package stdio

import (
	"errors"
	"sync"
	"time"

	"github.com/toolhaven/toolhaven/internal/gateway/backend/wire"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// joinTime bounds the wait for the next line of a message.
const joinTime = 2 * time.Second

// errIncomplete is the error for a message whose remaining lines did not arrive.
var errIncomplete = errors.New("it is not complete")

// joiner joins the lines of a message that a server writes over several of them. The
// protocol forbids that (MCP, Transports, stdio: messages must not contain embedded
// newlines), but indented JSON is still read. A message is complete when its brackets are
// closed. It has at most [mcp.MaxEvent] bytes, and the next line within joinTime.
type joiner struct {
	// late receives an incomplete message when no line continues it.
	late func(part []byte)

	mu              sync.Mutex
	part            []byte // the lines of a message so far, nil for none
	depth           int
	inString, quote bool
	timer           *time.Timer
	number          int // of the line for which timer was started
}

// add adds a line that is not a message by itself. complete is false when
// more lines may follow; otherwise text is the line, or the message that ends with it.
func (j *joiner) add(line []byte) (text []byte, complete bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.part == nil && !wire.LooksLikeJSON(line) {
		return line, true
	}
	j.scan(line)
	if j.part == nil && j.depth == 0 {
		j.clear()
		return line, true
	}
	j.part = append(append(j.part, line...), '\n')
	if j.depth <= 0 || j.depth > mcp.MaxDepth || j.inString || len(j.part) > mcp.MaxEvent {
		text = j.part
		j.clear()
		return text, true
	}
	j.number++
	number := j.number
	if j.timer != nil {
		j.timer.Stop()
	}
	j.timer = time.AfterFunc(joinTime, func() { j.expire(number) })
	return nil, false
}

// scan counts brackets outside of strings.
func (j *joiner) scan(line []byte) {
	for _, c := range line {
		switch {
		case j.quote:
			j.quote = false
		case j.inString:
			j.quote, j.inString = c == '\\', c != '"'
		case c == '"':
			j.inString = true
		case c == '{' || c == '[':
			j.depth++
		case c == '}' || c == ']':
			j.depth--
		}
	}
}

// expire passes the incomplete message to late if no line was added since number.
func (j *joiner) expire(number int) {
	j.mu.Lock()
	part := j.part
	if number != j.number || part == nil {
		j.mu.Unlock()
		return
	}
	j.clear()
	j.mu.Unlock()
	j.late(part)
}

// drop passes the incomplete message, if there is one, to late.
func (j *joiner) drop() {
	j.mu.Lock()
	part := j.part
	j.clear()
	j.mu.Unlock()
	if part != nil {
		j.late(part)
	}
}

// clear discards the incomplete message and stops the timer. The caller holds mu.
func (j *joiner) clear() {
	if j.timer != nil {
		j.timer.Stop()
		j.timer = nil
	}
	j.part, j.depth, j.inString, j.quote = nil, 0, false, false
}
