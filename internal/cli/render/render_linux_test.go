package render

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/term"

	"github.com/toolhaven/toolhaven/internal/cli/ptytest"
	"github.com/toolhaven/toolhaven/internal/manager"
)

func TestTable(t *testing.T) {
	header := []string{"NAME", "STATE", "SOURCE"}
	rows := [][]string{{"a", "running", "one\x1b[2J"}, {"long-name", "failed", "two\nlines"}}
	show := func(w io.Writer, env map[string]string) {
		t.Helper()
		getenv := func(k string) string { return env[k] }
		err := Table(w, header, rows, func(column int, cell string) string {
			if column == 1 {
				return PaintState(w, getenv, cell)
			}
			return cell
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var plain bytes.Buffer
	show(&plain, nil)
	if want := "a\trunning\tone\nlong-name\tfailed\ttwo lines\n"; plain.String() != want {
		t.Errorf("plain: %q, want %q", plain.String(), want)
	}
	want := "NAME        STATE     SOURCE\na           running   one\nlong-name   failed    two lines\n"
	for _, env := range []map[string]string{{"NO_COLOR": "1"}, {"TERM": "dumb"}} {
		noColour := ptytest.New(t)
		show(noColour.TTY, env)
		if got := noColour.Shows(t, "two lines\r\n"); got != want {
			t.Errorf("%v: %q, want %q", env, got, want)
		}
	}
	colour := ptytest.New(t)
	show(colour.TTY, nil)
	got := colour.Shows(t, "two lines\r\n")
	if !strings.Contains(got, "\x1b[32mrunning\x1b[0m") || !strings.Contains(got, "\x1b[31mfailed\x1b[0m") {
		t.Errorf("no colours: %q", got)
	}
	for _, code := range []string{"\x1b[32m", "\x1b[31m", "\x1b[39m", "\x1b[0m"} {
		got = strings.ReplaceAll(got, code, "")
	}
	if got != want {
		t.Errorf("with colour: %q, want %q", got, want)
	}
}

func TestProgress(t *testing.T) {
	events := []manager.Event{
		{Stage: "image", Message: "pulling x"}, {Stage: "image", Message: "layer", Current: 5, Total: 10},
		{Stage: "image", Message: "layer", Current: 10, Total: 10}, {Stage: "server", Message: "waiting\x07"}, {Stage: "server", Message: "waiting\x07"},
		{Stage: manager.NoteStage, Message: "killed\x07"},
	}
	var plain bytes.Buffer
	p := NewProgress(&plain, noEnv)
	for _, e := range events {
		p.Event(e)
	}
	p.Done()
	if plain.String() != "pulling x\nwaiting\nNote: killed\n" {
		t.Errorf("plain: %q", plain.String())
	}
	s := ptytest.New(t)
	if !term.IsTerminal(int(s.TTY.Fd())) {
		t.Fatal("a pseudo-terminal is no terminal")
	}
	p = NewProgress(s.TTY, noEnv)
	for _, step := range []struct {
		event manager.Event
		shown string
	}{{events[0], "pulling x"}, {manager.Event{Message: "layer", Current: 5e6, Total: 10e6}, "layer 5.0 of 10.0 MB"}, {events[3], "waiting"}, {events[5], "\rNote: killed\r\n"}, {events[0], "pulling x"}} {
		p.Event(step.event)
		s.Shows(t, step.shown)
	}
	p.Done()
	io.WriteString(s.TTY, "END")
	got := s.Shows(t, "END")
	if strings.Contains(got, "\x07") || !strings.HasSuffix(got, "\rEND") {
		t.Errorf("on a terminal: %q", got)
	}
	// The spinner's next turn would come within 100 ms.
	for deadline := time.Now().Add(300 * time.Millisecond); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if now := s.Shows(t, "END"); now != got {
			t.Fatalf("it goes on turning: %q", now[len(got):])
		}
	}
}

func TestTable_Width(t *testing.T) {
	header := []string{"TOOL", "ARGUMENTS", "DESCRIPTION"}
	rows := [][]string{
		{"weather", "city, days, unit", "Tells what the weather will be like, and why"},
		{"天気", "都市", "天気を教えてくれる便利な道具です"},
		{"e\u0301", "👩‍👩‍👧", "x"},
	}
	for _, c := range []struct {
		what    string
		columns uint16
		whole   []int
		want    string
	}{
		{"wide enough", 120, nil, `TOOL      ARGUMENTS          DESCRIPTION
weather   city, days, unit   Tells what the weather will be like, and why
天気      都市               天気を教えてくれる便利な道具です
é         👩‍👩‍👧                 x
`},
		{"the widest column is cut", 50, nil, `TOOL     ARGUMENTS         DESCRIPTION
weather  city, days, unit  Tells what the weather…
天気     都市              天気を教えてくれる便利…
é        👩‍👩‍👧                x
`},
		{"one that is to be copied is not", 50, []int{2}, `TOOL     ARGUMEN…  DESCRIPTION
weather  city, d…  Tells what the weather will be like, and why
天気     都市      天気を教えてくれる便利な道具です
é        👩‍👩‍👧        x
`},
		{"too narrow for any of it", 10, nil, `TOOL     ARGUMEN…  DESCRIP…
weather  city, d…  Tells w…
天気     都市      天気を…
é        👩‍👩‍👧        x
`},
	} {
		s := ptytest.Sized(t, c.columns)
		if err := Table(s.TTY, header, rows, nil, c.whole...); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.ReplaceAll(c.want, "é", "e\u0301"), s.Shows(t, " x\r\n")); diff != "" {
			t.Errorf("%s:\n%s", c.what, diff)
		}
	}
	s := ptytest.Sized(t, 40)
	if err := Table(s.TTY, header, [][]string{{"a_tool_with_a_name_that_is_long", "x", "what it does"}}, nil); err != nil {
		t.Fatal(err)
	}
	if got := s.Shows(t, "what it"); !strings.Contains(got, "a_tool_with_a_name_that_is_long") {
		t.Errorf("the first column is cut: %q", got)
	}
	var plain bytes.Buffer
	if err := Table(&plain, header, rows, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(plain.String(), "and why\n") {
		t.Errorf("into a pipe: %q", plain.String())
	}
}

func TestProgress_DoesNotWrap(t *testing.T) {
	const columns = 80
	for what, c := range map[string]struct {
		event manager.Event
		end   string // of the text
	}{
		"a long text":  {manager.Event{Message: "building " + strings.Repeat("github.com/x/", 20)}, "…"},
		"a wide text":  {manager.Event{Message: strings.Repeat("日本語", 40)}, "…"},
		"with a size":  {manager.Event{Message: strings.Repeat("layer ", 40), Current: 5e6, Total: 10e6}, "… 5.0 of 10.0 MB"},
		"a short text": {manager.Event{Message: "waiting"}, "waiting"},
	} {
		s := ptytest.Sized(t, columns)
		p := NewProgress(s.TTY, noEnv)
		p.Event(c.event)
		s.Shows(t, c.end)
		// Several turns, and a clearing.
		for deadline := time.Now().Add(ptytest.LongEnough); strings.Count(s.Shows(t, c.end), c.end) < 3; {
			if time.Now().After(deadline) {
				t.Fatalf("%s: it does not turn", what)
			}
			p.Event(c.event)
		}
		p.Done()
		io.WriteString(s.TTY, "END")
		for _, line := range strings.Split(s.Shows(t, "END"), "\r") {
			line = strings.NewReplacer("\x1b[0K", "", "\x1b[2K", "").Replace(line) // of no width
			if n := width(line); n >= columns {
				t.Errorf("%s: a line of %d columns: %q", what, n, line)
			}
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"short", 5, "short"}, {"longer", 5, "long…"}, {"日本語", 6, "日本語"}, {"日本語", 5, "日本…"},
		{"日本語", 4, "日…"}, {"e\u0301e\u0301e\u0301", 2, "e\u0301…"}, {"ab", 1, "…"}, {"", 0, ""},
	} {
		if got := cut(c.in, c.n); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func noEnv(string) string { return "" }

// On Ctrl-C a terminal echoes ^C behind the text of the spinner.
func TestProgress_ClearsTheWholeLine(t *testing.T) {
	s := ptytest.New(t)
	p := NewProgress(s.TTY, noEnv)
	p.Event(manager.Event{Message: "waiting"})
	s.Shows(t, "waiting")
	io.WriteString(s.TTY, "^C")
	p.Done()
	io.WriteString(s.TTY, "END")
	got := s.Shows(t, "END")
	if rest := got[strings.LastIndex(got, "^C")+2:]; rest != "\x1b[2K\rEND" {
		t.Errorf("after ^C the terminal receives %q", rest)
	}
}

func TestProgress_OnADumbTerminalIsLines(t *testing.T) {
	s := ptytest.New(t)
	p := NewProgress(s.TTY, func(string) string { return "dumb" })
	p.Event(manager.Event{Message: "waiting"})
	p.Done()
	io.WriteString(s.TTY, "END")
	if got := s.Shows(t, "END"); got != "waiting\nEND" {
		t.Errorf("the terminal shows %q", got)
	}
}
