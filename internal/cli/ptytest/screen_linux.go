package ptytest

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Screen is a pseudo-terminal: TTY is the program's side, Person the other.
type Screen struct {
	TTY    *os.File
	Person *os.File

	mu   sync.Mutex
	seen bytes.Buffer
}

// New returns a Screen of 120 columns.
func New(t *testing.T) *Screen { return Sized(t, 120) }

// Sized returns a Screen with a number of columns.
func Sized(t *testing.T, columns uint16) *Screen {
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
	s := &Screen{TTY: tty, Person: person}
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

// Shows waits until the screen shows text and returns everything on it.
func (s *Screen) Shows(t *testing.T, text string) string {
	t.Helper()
	for deadline := time.Now().Add(LongEnough); ; <-time.After(time.Millisecond) {
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

// Echoes reports whether the terminal shows what is typed.
func (s *Screen) Echoes(t *testing.T) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(s.TTY.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}
