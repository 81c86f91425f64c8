package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// ErrEventTooLarge is what [EventReader.Next] returns for an event, or a line,
// over the limit. The stream cannot be read further.
var ErrEventTooLarge = errors.New("a server-sent event is larger than the limit")

// Event is one server-sent event (WHATWG HTML, 9.2 Server-sent events).
type Event struct {
	// Name is the event's type; reading, never empty ("message" by default);
	// writing, "" leaves the field out.
	Name string
	// ID is, reading, the last event id the stream has given, which need not
	// have come with this event; writing, "" leaves the field out.
	ID string
	// Data may be empty: an event of MCP 2025-11-25 that only announces its id.
	Data []byte
	// Retry is the reconnection time the event sets; writing, 0 leaves it out.
	// A reader finds it in [EventReader.Retry].
	Retry time.Duration
}

// EventReader reads a stream of server-sent events by the rules of WHATWG HTML
// 9.2.6: lines end with CR, LF or CRLF, a leading byte order mark is skipped,
// unknown fields and comments are ignored, an event that the stream's end cuts
// off is dropped.
type EventReader struct {
	r      *bufio.Reader
	max    int
	begun  bool
	skipLF bool // the line before ended with CR: an LF now belongs to it
	line   []byte
	lastID string
	retry  time.Duration
}

// NewEventReader reads events of at most maxEvent bytes from r; 0 means
// [MaxEvent].
func NewEventReader(r io.Reader, maxEvent int) *EventReader {
	if maxEvent <= 0 {
		maxEvent = MaxEvent
	}
	return &EventReader{r: bufio.NewReaderSize(r, 4<<10), max: maxEvent}
}

// LastEventID is the newest event id of the stream, "" for none. It is what the
// Last-Event-ID header of a reconnection carries.
func (r *EventReader) LastEventID() string { return r.lastID }

// Retry is the newest reconnection time of the stream, 0 for none. It may be
// any number the server chose; the caller bounds it.
func (r *EventReader) Retry() time.Duration { return r.retry }

// Next returns the next event that has data, be it empty. Its Data is the
// caller's. At the end of the stream the error is io.EOF, otherwise the
// reader's own or [ErrEventTooLarge].
func (r *EventReader) Next() (Event, error) {
	ev := Event{Name: EventMessage}
	hasData := false
	id, size := r.lastID, 0
	for {
		line, err := r.readLine()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			r.lastID = id
			if !hasData {
				ev.Name, size = EventMessage, 0
				continue
			}
			ev.ID = id
			return ev, nil
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(name) {
		case "data":
			// The line breaks count too: a million empty lines are not free.
			if size += len(value) + 1; size > r.max {
				return Event{}, ErrEventTooLarge
			}
			if hasData {
				ev.Data = append(ev.Data, '\n')
			}
			ev.Data = append(ev.Data, value...)
			hasData = true
		case "event":
			ev.Name = EventMessage
			if len(value) > 0 {
				ev.Name = string(value)
			}
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				id = string(value)
			}
		case "retry":
			if ms, ok := parseMillis(value); ok {
				r.retry = ms
			}
		}
	}
}

// parseMillis reads ASCII digits only; a number too large for a Duration is
// ignored like any other bad value.
func parseMillis(b []byte) (time.Duration, bool) {
	for _, c := range b {
		if !isDigit(c) {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || n > int64((1<<63-1)/time.Millisecond) {
		return 0, false
	}
	return time.Duration(n) * time.Millisecond, true
}

// readLine returns the next line without its end, valid until the next call.
// It does not wait for what may follow a CR: the event before it may be whole.
func (r *EventReader) readLine() ([]byte, error) {
	if cap(r.line) > 1<<20 {
		r.line = nil // one large event should not pin its size for the stream's life
	}
	r.line = r.line[:0]
	for {
		if _, err := r.r.Peek(1); err != nil {
			return nil, err
		}
		buf, _ := r.r.Peek(r.r.Buffered())
		if !r.begun {
			r.begun = true
			if buf[0] == 0xEF { // else there is nothing to wait for
				if bom, _ := r.r.Peek(3); bytes.Equal(bom, []byte("\xEF\xBB\xBF")) {
					_, _ = r.r.Discard(3)
					continue
				}
				buf, _ = r.r.Peek(r.r.Buffered())
			}
		}
		if r.skipLF {
			r.skipLF = false
			if buf[0] == '\n' {
				_, _ = r.r.Discard(1)
				continue
			}
		}
		end := bytes.IndexByte(buf, '\n')
		if cr := bytes.IndexByte(buf[:max(end, 0)], '\r'); end >= 0 && cr >= 0 {
			end = cr
		} else if end < 0 {
			end = bytes.IndexByte(buf, '\r')
		}
		part := buf
		if end >= 0 {
			part = buf[:end]
		}
		// The field's name and colon are beside the limit on its value.
		if len(r.line)+len(part) > r.max+8 {
			return nil, ErrEventTooLarge
		}
		r.line = append(r.line, part...)
		if end < 0 {
			_, _ = r.r.Discard(len(part))
			continue
		}
		r.skipLF = buf[end] == '\r'
		_, _ = r.r.Discard(end + 1)
		return r.line, nil
	}
}

// AppendEvent appends ev in its wire form. Data is split at CR, LF and CRLF
// into lines, so a reader gets LF for each of them. An ID with a NUL cannot be
// sent and is left out; line breaks in Name and ID are left out.
func AppendEvent(dst []byte, ev Event) []byte {
	if ev.Name != "" {
		dst = appendField(dst, "event: ", ev.Name)
	}
	if ev.ID != "" && bytes.IndexByte([]byte(ev.ID), 0) < 0 {
		dst = appendField(dst, "id: ", ev.ID)
	}
	if ev.Retry > 0 {
		dst = append(dst, "retry: "...)
		dst = strconv.AppendInt(dst, ev.Retry.Milliseconds(), 10)
		dst = append(dst, '\n')
	}
	if bytes.IndexByte(ev.Data, '\n') < 0 && bytes.IndexByte(ev.Data, '\r') < 0 {
		dst = append(dst, "data: "...)
		dst = append(dst, ev.Data...)
		return append(dst, '\n', '\n')
	}
	for data := ev.Data; ; {
		line, rest, more := cutLine(data)
		dst = append(dst, "data: "...)
		dst = append(dst, line...)
		dst = append(dst, '\n')
		if !more {
			return append(dst, '\n')
		}
		data = rest
	}
}

// AppendComment appends a comment, which readers ignore and which keeps the
// connection from looking idle. text must not have line breaks.
func AppendComment(dst []byte, text string) []byte {
	dst = appendField(dst, ": ", text)
	return append(dst, '\n')
}

func appendField(dst []byte, prefix, value string) []byte {
	dst = append(dst, prefix...)
	for i := 0; i < len(value); i++ {
		if value[i] != '\n' && value[i] != '\r' {
			dst = append(dst, value[i])
		}
	}
	return append(dst, '\n')
}

func cutLine(b []byte) (line, rest []byte, more bool) {
	i := bytes.IndexAny(b, "\r\n")
	if i < 0 {
		return b, nil, false
	}
	if b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n' {
		return b[:i], b[i+2:], true
	}
	return b[:i], b[i+1:], true
}
