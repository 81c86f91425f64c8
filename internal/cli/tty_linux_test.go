package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/toolhaven/toolhaven/internal/source"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// screen is a pseudo-terminal: what a person sees and types.
type screen struct {
	tty    *os.File // the program's side
	person *os.File

	mu   sync.Mutex
	seen bytes.Buffer
}

func newScreen(t *testing.T) *screen { return screenOf(t, 120) }

func screenOf(t *testing.T, columns uint16) *screen {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	s := &screen{tty: tty, person: person}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := person.Read(buf)
			s.mu.Lock()
			s.seen.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return s
}

// shows waits until the screen shows text and returns everything on it.
func (s *screen) shows(t *testing.T, text string) string {
	t.Helper()
	for deadline := time.Now().Add(longEnough); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		seen := s.seen.String()
		s.mu.Unlock()
		if strings.Contains(seen, text) {
			return strings.ReplaceAll(seen, "\r\n", "\n")
		}
		if time.Now().After(deadline) {
			t.Fatalf("the screen shows %q and not %q", seen, text)
		}
	}
}

func (s *screen) echoes(t *testing.T) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(s.tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

func TestATableIsAlignedOnATerminalAndPlainElsewhere(t *testing.T) {
	header := []string{"NAME", "STATE", "SOURCE"}
	rows := [][]string{{"a", "running", "one\x1b[2J"}, {"long-name", "failed", "two\nlines"}}
	show := func(w io.Writer, env map[string]string) {
		t.Helper()
		app := &App{Out: w, Env: func(k string) string { return env[k] }}
		err := table(w, header, rows, func(column int, cell string) string {
			if column == 1 {
				return app.paintState(cell)
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
	noColour := newScreen(t)
	show(noColour.tty, map[string]string{"NO_COLOR": "1"})
	if got := noColour.shows(t, "two lines\r\n"); got != want {
		t.Errorf("on a terminal without colour: %q, want %q", got, want)
	}
	colour := newScreen(t)
	show(colour.tty, nil)
	got := colour.shows(t, "two lines\r\n")
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

func TestWhatIsMissingIsAskedForOnATerminal(t *testing.T) {
	s := newScreen(t)
	app := &App{In: s.tty, Err: s.tty, Out: io.Discard, Env: func(string) string { return "" }}
	values := map[string]string{"GIVEN": "x"}
	done := make(chan error, 1)
	go func() {
		done <- askMissing(t.Context(), app, values, []source.Input{
			{Name: "REGION", Required: true, Description: "where\x1b[2J it is", Choices: []string{"eu", "us"}},
			{Name: "PASSPHRASE", Required: true, Secret: true},
			{Name: "GIVEN", Required: true}, {Name: "OPTIONAL"},
		})
	}()
	s.shows(t, "REGION (where it is): ")
	io.WriteString(s.person, "eu\n")
	s.shows(t, "PASSPHRASE: ")
	for deadline := time.Now().Add(longEnough); s.echoes(t); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a secret is shown while it is typed")
		}
	}
	io.WriteString(s.person, "hunter2\n")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if values["REGION"] != "eu" || values["PASSPHRASE"] != "hunter2" || len(values) != 3 {
		t.Errorf("got %v", values)
	}
	if seen := s.shows(t, "PASSPHRASE"); strings.Contains(seen, "hunter2") || !s.echoes(t) {
		t.Errorf("the screen shows %q; echo is %t", seen, s.echoes(t))
	}
}

func TestCtrlCAtAPromptGivesTheTerminalBack(t *testing.T) {
	s := newScreen(t)
	app := &App{In: s.tty, Err: s.tty, Out: io.Discard, Env: func(string) string { return "" }}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- askMissing(ctx, app, map[string]string{}, []source.Input{{Name: "TOKEN", Required: true}})
	}()
	s.shows(t, "TOKEN: ")
	for deadline := time.Now().Add(longEnough); s.echoes(t); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what looks like a secret is shown while it is typed")
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || exitCode(err) != exitInterrupted {
		t.Errorf("got %v", err)
	}
	if !s.echoes(t) {
		t.Error("the terminal is left without echo")
	}
	io.WriteString(s.person, "\n") // lets the read end
}

func TestProgressIsABarOnATerminalAndLinesElsewhere(t *testing.T) {
	events := []workload.Event{
		{Stage: "image", Message: "pulling x"}, {Stage: "image", Message: "layer", Current: 5, Total: 10},
		{Stage: "image", Message: "layer", Current: 10, Total: 10}, {Stage: "server", Message: "waiting\x07"}, {Stage: "server", Message: "waiting\x07"},
		{Stage: workload.NoteStage, Message: "killed\x07"},
	}
	var plain bytes.Buffer
	p := newProgress(&plain)
	for _, e := range events {
		p.event(e)
	}
	p.done()
	if plain.String() != "pulling x\nwaiting\nNote: killed\n" {
		t.Errorf("plain: %q", plain.String())
	}
	s := newScreen(t)
	if !term.IsTerminal(int(s.tty.Fd())) {
		t.Fatal("a pseudo-terminal is no terminal")
	}
	p = newProgress(s.tty)
	for _, step := range []struct {
		event workload.Event
		shown string
	}{{events[0], "pulling x"}, {workload.Event{Message: "layer", Current: 5e6, Total: 10e6}, "layer 5.0 of 10.0 MB"}, {events[3], "waiting"}, {events[5], "\rNote: killed\r\n"}, {events[0], "pulling x"}} {
		p.event(step.event)
		s.shows(t, step.shown)
	}
	p.done()
	io.WriteString(s.tty, "END")
	got := s.shows(t, "END")
	if strings.Contains(got, "\x07") || !strings.HasSuffix(got, "\rEND") {
		t.Errorf("on a terminal: %q", got)
	}
	// The spinner's next turn would come within 100 ms.
	for deadline := time.Now().Add(300 * time.Millisecond); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if now := s.shows(t, "END"); now != got {
			t.Fatalf("it goes on turning: %q", now[len(got):])
		}
	}
}

func TestLogsArePlainOnATerminalAndAsTheyAreElsewhere(t *testing.T) {
	a := testApp(t)
	keep(t, a, inContainer("x"), workload.Stopped, "")
	store, err := a.Store()
	if err != nil {
		t.Fatal(err)
	}
	const said = "\x1b[32mgrün\x1b[0m\n\x1b]0;no end"
	if err := os.WriteFile(store.ServerLog("x"), []byte(said), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := must(t, a, "logs", "x"); got != said {
		t.Errorf("into a pipe: %q", got)
	}
	s := newScreen(t)
	a.Out = s.tty
	root := Root(a)
	root.SetArgs([]string{"logs", "x"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.shows(t, "no end"); got != "grün\n]0;no end" {
		t.Errorf("on a terminal: %q", got)
	}
}
