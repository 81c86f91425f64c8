package backend

import (
	"bytes"
	"context"
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

// A program that prints something and never answers is given up when the caller's time
// is over. What it printed is shown.
func TestStdio_NoProtocolOutput(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ script, shown string }{
		"a log":         {`echo 'Listening on port 8080'; cat > /dev/null`, "Listening on port 8080\n"},
		"a JSON log":    {`echo '{"level":30,"msg":"up"}'; cat > /dev/null`, `{"level":30,"msg":"up"}` + "\n"},
		"a prompt":      {`printf 'Hello\n'; printf 'Password: '; cat > /dev/null`, "Hello\nPassword:\n"},
		"half a line":   {`printf 'abc'; sleep 0.1; printf 'def\n'; cat > /dev/null`, "abcdef\n"},
		"other framing": {`printf 'Content-Length: 2\r\n\r\n{}'; cat > /dev/null`, "Content-Length: 2\n{}\n"},
	}
	for name, tt := range tests {
		for kind, client := range map[string]*exchange.Client{"shared": plain(), "own": backendtest.FullClient()} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				shown := &words{}
				b := s.backend(t, stdio.Config{Stray: shown}, shell(tt.script)...)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				_, err := b.Open(ctx, client, backendtest.NewPeer())
				s.eventually(t, 0)
				backendtest.Eventually(t, "the output is shown: "+tt.shown, func() bool { return shown.String() == tt.shown })
				if !errors.Is(err, stdio.ErrNoProtocolOutput) {
					t.Errorf("open: %v", err)
				}
			})
		}
	}
}

// The last line of a process that fails often has no end.
func TestStdio_LastLineWithoutEndIsShown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	shown := &words{}
	b := s.backend(t, stdio.Config{Stray: shown}, shell(`printf 'no API key'; exit 78`)...)
	_, err := b.Open(backendtest.TestContext(t), plain(), backendtest.NewPeer())
	if err == nil || !strings.Contains(err.Error(), "exit status 78") || shown.String() != "no API key\n" {
		t.Errorf("open: %v, shown: %q", err, shown.String())
	}
}
