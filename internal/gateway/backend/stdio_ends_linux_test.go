package backend

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/backendtest"
	"github.com/toolhaven/toolhaven/internal/gateway/backend/stdio"
)

// record is a log to look at afterwards.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(b)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

func (r *record) log() *slog.Logger { return slog.New(slog.NewJSONHandler(r, nil)) }

// ends are the reasons of the ends of processes that were warned of.
func (r *record) ends(t *testing.T) []string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var reasons []string
	for line := range strings.Lines(r.buf.String()) {
		var entry struct{ Level, Msg, Reason string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.Level == "WARN" && strings.Contains(entry.Msg, "process ended") {
			reasons = append(reasons, entry.Reason)
		}
	}
	return reasons
}

// A process that ends by itself is noted once, whomever it served; Close waits for
// everything that is logged of it.
func TestStdio_UnexpectedExitIsLogged(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]string{
		"die":          "the server's process ended: exit status 3",
		"crash":        "the server's process ended: killed by signal 9",
		"close output": "the server's process was ended because it closed its output (end of its standard output)",
		"endless line": "the server's process was ended because it wrote a line of more than 16 MiB",
	} {
		for name, client := range map[string]*exchange.Client{"shared": plain(), "own": backendtest.FullClient()} {
			t.Run(tool+" "+name, func(t *testing.T) {
				t.Parallel()
				var log record
				_, b := crudeBackend(t, stdio.Config{Log: log.log()})
				ask(t, openAs(t, b, client, backendtest.NewPeer()), tool, "")
				if err := b.Close(); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]string{want}, log.ends(t)); diff != "" {
					t.Error(diff)
				}
			})
		}
		t.Run(tool+" modern", func(t *testing.T) {
			t.Parallel()
			var log record
			s, m := modernSite(t, stdio.Config{Log: log.log()}, "modern")
			askModern(t, m, tool, "")
			if err := s.bridge.sessions.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{want}, log.ends(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStdio_OrdinaryExitIsNotLogged(t *testing.T) {
	t.Parallel()
	var log record
	s, b := crudeBackend(t, stdio.Config{Log: log.log(), Linger: 10 * time.Millisecond})
	for _, client := range []*exchange.Client{plain(), backendtest.FullClient()} {
		conn := openAs(t, b, client, backendtest.NewPeer())
		if got := ask(t, conn, "echo", "x"); got != "x" {
			t.Fatal(got)
		}
		if err := conn.Close(); err != nil { // the session is over
			t.Fatal(err)
		}
		s.eventually(t, 0)
	}
	openAs(t, b, backendtest.FullClient(), backendtest.NewPeer())
	openAs(t, b, plain(), backendtest.NewPeer())
	if err := b.Close(); err != nil { // the workload stops
		t.Fatal(err)
	}
	if got := log.ends(t); got != nil {
		t.Errorf("logged: %q", got)
	}
}

// A server of the session era may end when it is asked which era it speaks.
func TestStdio_ExitOnDiscoverIsNotLogged(t *testing.T) {
	t.Parallel()
	var log record
	s, m := modernSite(t, stdio.Config{Log: log.log()}, "shy")
	if _, err := m.Do(backendtest.TestContext(t), discoverExchange()); !isOtherEra(err) {
		t.Fatalf("asked for its era it says %v", err)
	}
	if err := s.bridge.sessions.Close(); err != nil {
		t.Fatal(err)
	}
	if got := log.ends(t); got != nil {
		t.Errorf("logged: %q", got)
	}
}
