package backend

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/stdio"
)

// words collects what is written by several goroutines.
type words struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

func shell(script string, then ...string) []string {
	return append([]string{"/bin/sh", "-c", script, "sh"}, then...)
}

// A program that prints something and then neither a message nor anything else
// is given up long before the caller's patience ends, and what it printed is
// shown.
func TestStdioServerThatDoesNotSpeakMCP(t *testing.T) {
	tests := map[string]struct {
		script, shown string
		babble        time.Duration // long where the program says more than one thing
	}{
		"a log":         {`echo 'Listening on port 8080'; cat > /dev/null`, "Listening on port 8080\n", 500 * time.Millisecond},
		"a JSON log":    {`echo '{"level":30,"msg":"up"}'; cat > /dev/null`, `{"level":30,"msg":"up"}` + "\n", 500 * time.Millisecond},
		"a prompt":      {`printf 'Hello\n'; printf 'Password: '; cat > /dev/null`, "Hello\nPassword:\n", 3 * time.Second},
		"half a line":   {`printf 'abc'; sleep 0.1; printf 'def\n'; cat > /dev/null`, "abcdef\n", 3 * time.Second},
		"other framing": {`printf 'Content-Length: 2\r\n\r\n{}'; cat > /dev/null`, "Content-Length: 2\n{}\n", 500 * time.Millisecond},
	}
	for name, tt := range tests {
		for kind, client := range map[string]*exchange.Client{"shared": plain(), "own": backendtest.FullClient()} {
			t.Run(name+" "+kind, func(t *testing.T) {
				backendtest.NoLeaks(t)
				s := newSite(t)
				shown := &words{}
				b := s.backend(t, stdio.Config{Babble: tt.babble, Stray: shown}, shell(tt.script)...)
				if _, err := b.Open(backendtest.TestContext(t), client, backendtest.NewPeer()); !errors.Is(err, stdio.ErrNoProtocolOutput) {
					t.Errorf("open: %v", err)
				}
				if got := shown.String(); got != tt.shown {
					t.Errorf("shown: %q, want %q", got, tt.shown)
				}
				s.eventually(t, 0)
			})
		}
	}
}

// Servers that greet, and then take their time, are not: neither while they say
// something now and then, nor when they are silent from the start.
func TestStdioServerThatGreetsAndIsSlow(t *testing.T) {
	// Longer than a busy machine takes to run a program; what is to last longer than
	// this takes six seconds.
	const babble = 5 * time.Second
	for name, script := range map[string]string{
		"a banner":          `echo Starting...; exec "$@"`,
		"reports":           `for i in 1 2 3 4 5 6; do printf 'loading %s... ' $i; sleep 1; done; echo; exec "$@"`,
		"silence":           `sleep 6; exec "$@"`,
		"an empty line":     `echo; sleep 6; exec "$@"`,
		"silence, a banner": `sleep 6; echo Starting...; exec "$@"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			b := s.backend(t, stdio.Config{Babble: babble}, shell(script, role(t, "crude")...)...)
			conn := openAs(t, b, plain(), backendtest.NewPeer())
			// Silence between two messages is how servers are.
			held, _ := hold(backendtest.TestContext(t), t, conn, "x", backendtest.NewPeer())
			select {
			case o := <-held:
				t.Errorf("the call ended with %s", backendtest.Text(o.M, o.Err))
			case <-time.After(babble + babble/10):
			}
			if got := ask(t, conn, "echo", "well"); got != "well" {
				t.Error(got)
			}
		})
	}
}

// The last line of a process that fails often has no end.
func TestStdioServersLastWordsAreShown(t *testing.T) {
	s := newSite(t)
	shown := &words{}
	b := s.backend(t, stdio.Config{Stray: shown}, shell(`printf 'no API key'; exit 78`)...)
	_, err := b.Open(backendtest.TestContext(t), plain(), backendtest.NewPeer())
	if err == nil || !strings.Contains(err.Error(), "exit status 78") || shown.String() != "no API key\n" {
		t.Errorf("open: %v, shown: %q", err, shown.String())
	}
}
