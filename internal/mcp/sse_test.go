package mcp

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func readAll(r *EventReader) ([]Event, error) {
	var all []Event
	for {
		ev, err := r.Next()
		if err != nil {
			return all, err
		}
		all = append(all, ev)
	}
}

func TestEventReader(t *testing.T) {
	msg := func(data, id string) Event {
		ev := Event{Name: "message", ID: id}
		if data != "" {
			ev.Data = []byte(data)
		}
		return ev
	}
	tests := []struct {
		name, in string
		want     []Event
		lastID   string
		retry    time.Duration
	}{
		{"the standard's stock example", "data: YHOO\ndata: +2\ndata: 10\n\n", []Event{msg("YHOO\n+2\n10", "")}, "", 0},
		{"comments, ids and a reset id", ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
			[]Event{msg("first event", "1"), msg("second event", ""), msg(" third event", "")}, "", 0},
		{"empty data is an event, a block cut off is none", "data\n\ndata\ndata\n\ndata:\n", []Event{msg("", ""), msg("\n", "")}, "", 0},
		{"one space after the colon is dropped", "data:test\n\ndata: test\n\n", []Event{msg("test", ""), msg("test", "")}, "", 0},
		{"CR and CRLF", "data: a\r\rdata: b\r\n\r\ndata: c\r\n\n", []Event{msg("a", ""), msg("b", ""), msg("c", "")}, "", 0},
		{"byte order mark", "\xEF\xBB\xBFdata: a\n\n", []Event{msg("a", "")}, "", 0},
		{"a second byte order mark is part of a name", "\xEF\xBB\xBF\xEF\xBB\xBFdata: a\n\n", nil, "", 0},
		{"event names", "event: endpoint\ndata: /m\n\nevent\ndata: x\n\n", []Event{{Name: "endpoint", Data: []byte("/m")}, msg("x", "")}, "", 0},
		{"a name without data does not stick", "event: x\n\ndata: a\n\n", []Event{msg("a", "")}, "", 0},
		{"the id holds until another", "id: 7\ndata: a\n\ndata: b\n\n", []Event{msg("a", "7"), msg("b", "7")}, "7", 0},
		{"an id without data counts", "id: 7\n\n", nil, "7", 0},
		{"an id cut off does not count", "id: 7\ndata: a\n\nid: 8\n", []Event{msg("a", "7")}, "7", 0},
		{"an id with NUL is ignored", "id: 7\nid: 8\x00\ndata: a\n\n", []Event{msg("a", "7")}, "7", 0},
		{"retry", "retry: 1500\ndata:\n\n", []Event{msg("", "")}, "", 1500 * time.Millisecond},
		{"bad retries", "retry: -1\nretry: 1s\nretry:\nretry: 99999999999999999999\ndata: a\n\n", []Event{msg("a", "")}, "", 0},
		{"unknown fields", "foo: bar\nDATA: x\ndata : y\ndata: a\n\n", []Event{msg("a", "")}, "", 0},
		{"nothing", "", nil, "", 0},
	}
	readers := map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "with the end": iotest.DataErrReader,
	}
	for _, tt := range tests {
		for how, wrap := range readers {
			t.Run(tt.name+", "+how, func(t *testing.T) {
				r := NewEventReader(wrap(strings.NewReader(tt.in)), 0)
				got, err := readAll(r)
				if err != io.EOF {
					t.Fatal(err)
				}
				if d := cmp.Diff(tt.want, got); d != "" {
					t.Error(d)
				}
				if r.LastEventID() != tt.lastID || r.Retry() != tt.retry {
					t.Errorf("last id %q, retry %v", r.LastEventID(), r.Retry())
				}
			})
		}
	}
}

// A reader that waited for the byte after a CR, or for a byte order mark, would
// hang here: the pipe gives no more.
func TestEventReader_ReturnsCompleteEvent(t *testing.T) {
	for _, in := range []string{"data: a\r\r", "data: a\n\n", "data: a\r\n\r\n", "data:a\r\n\r"} {
		pr, pw := io.Pipe()
		go func() { _, _ = io.WriteString(pw, in) }()
		ev, err := NewEventReader(pr, 0).Next()
		if err != nil || string(ev.Data) != "a" {
			t.Errorf("%q: %+v, %v", in, ev, err)
		}
		_ = pw.Close()
	}
}

func TestEventReader_Bounded(t *testing.T) {
	endless := func(unit string) io.Reader { return io.LimitReader(&repeat{unit: unit}, 1<<20) }
	for name, r := range map[string]io.Reader{
		"a line without end":         endless("x"),
		"an event of many lines":     endless("data: xxxxxxx\n"),
		"an event of empty lines":    endless("data\n"),
		"a line after a short event": io.MultiReader(strings.NewReader("data: a\n\n"), endless("data: x")),
	} {
		if _, err := readAll(NewEventReader(r, 1000)); !errors.Is(err, ErrEventTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole := "data: " + strings.Repeat("x", 999) + "\n\n"
	if got, err := readAll(NewEventReader(strings.NewReader(whole+whole), 1000)); err != io.EOF || len(got) != 2 {
		t.Errorf("events of the limit: %d, %v", len(got), err)
	}
	comments := io.LimitReader(&repeat{unit: ": keep alive\n\n"}, 1<<20)
	if _, err := readAll(NewEventReader(comments, 1000)); err != io.EOF {
		t.Errorf("comments count against the limit: %v", err)
	}
}

type repeat struct {
	unit string
	at   int
}

func (r *repeat) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.unit[r.at%len(r.unit)]
		r.at++
	}
	return len(p), nil
}

func TestAppendEvent(t *testing.T) {
	tests := []struct {
		name string
		in   Event
		wire string
	}{
		{"message", Event{Name: "message", ID: "s_1", Data: []byte(`{}`)}, "event: message\nid: s_1\ndata: {}\n\n"},
		{"announcing an id", Event{ID: "s_0", Retry: 3 * time.Second}, "id: s_0\nretry: 3000\ndata: \n\n"},
		{"every line break", Event{Data: []byte("a\nb\r\nc\rd\n")}, "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
		{"no injection by name or id", Event{Name: "x\ndata: evil", ID: "1\r\n\r\n2"}, "event: xdata: evil\nid: 12\ndata: \n\n"},
		{"leading space survives", Event{Data: []byte(" a")}, "data:  a\n\n"},
	}
	for _, tt := range tests {
		if got := string(AppendEvent(nil, tt.in)); got != tt.wire {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.wire)
		}
	}
	if got := string(AppendComment(nil, "ping")); got != ": ping\n\n" {
		t.Errorf("comment %q", got)
	}
}

func FuzzEventReader(f *testing.F) {
	f.Add([]byte("\xEF\xBB\xBF: c\nid: 1\r\nevent: e\rdata: a\ndata\n\nretry: 5\n\n"))
	f.Add([]byte("data: a\r\n\r\ndata: b\r\r"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := NewEventReader(bytes.NewReader(in), 1<<16)
		got, err := readAll(r)
		if errors.Is(err, ErrEventTooLarge) && len(in) > 1<<16 {
			return
		}
		if err != io.EOF {
			t.Fatal(err)
		}
		want, lastID := referenceEvents(in)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
		if r.LastEventID() != lastID {
			t.Fatalf("last id %q, want %q", r.LastEventID(), lastID)
		}
		slow, _ := readAll(NewEventReader(iotest.OneByteReader(bytes.NewReader(in)), 1<<16))
		if d := cmp.Diff(got, slow); d != "" {
			t.Fatal("depends on how bytes arrive: " + d)
		}
		for _, ev := range got {
			back, err := NewEventReader(bytes.NewReader(AppendEvent(nil, ev)), 0).Next()
			if err != nil || back.Name != ev.Name || back.ID != ev.ID || !bytes.Equal(back.Data, bytes.ReplaceAll(ev.Data, []byte("\r"), []byte("\n"))) {
				t.Fatalf("%+v comes back as %+v, %v", ev, back, err)
			}
		}
	})
}

// referenceEvents is the standard's algorithm in its plainest form.
func referenceEvents(in []byte) (events []Event, lastID string) {
	text := strings.TrimPrefix(string(in), "\xEF\xBB\xBF")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(text, "\n")
	var name, id, data string
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			lastID = id
			if data != "" {
				ev := Event{Name: name, ID: id}
				if name == "" {
					ev.Name = "message"
				}
				if data != "\n" {
					ev.Data = []byte(strings.TrimSuffix(data, "\n"))
				}
				events = append(events, ev)
			}
			name, data = "", ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			data += value + "\n"
		case "id":
			if !strings.Contains(value, "\x00") {
				id = value
			}
		}
	}
	return events, lastID
}

func BenchmarkEventReader(b *testing.B) {
	stream := bytes.Repeat(AppendEvent(nil, Event{Name: "message", ID: "s_12", Data: benchCall}), 100)
	b.ReportAllocs()
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		if n, _ := readAll(NewEventReader(bytes.NewReader(stream), 0)); len(n) != 100 {
			b.Fatal(len(n))
		}
	}
}
