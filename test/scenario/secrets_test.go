//go:build integration

package scenario

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// secrets are the tokens and secrets that a script has used. What thv writes must have none
// of them: [place.leaks] looks at its files and processes, and the command thv at its output.
type secrets struct {
	mu     sync.Mutex
	values []string
}

// add adds values. Of a JWT the claims and the signature are secret; its header is not.
func (s *secrets) add(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, value := range values {
		s.values = append(s.values, value)
		if parts := strings.Split(value, "."); len(parts) == 3 && strings.HasPrefix(value, "eyJ") {
			s.values = append(s.values, parts[1:]...)
		}
	}
}

// in returns the beginning of a secret that text has, "" for none.
func (s *secrets) in(text []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, value := range s.values {
		if bytes.Contains(text, []byte(value)) {
			return fmt.Sprintf("%.12s...", value)
		}
	}
	return ""
}

// secretValues is the command secret VALUE...: values that thv must not write.
func secretValues(ts *testscript.TestScript, _ bool, args []string) { here(ts).secrets.add(args...) }

// leaks returns each file and each command line of a process of this place that has a secret.
// Files of the directory secrets hold secrets on purpose, and files that end in .token are
// the script's own.
func (p *place) leaks() []string {
	found := p.secrets.files([]string{"secrets"}, p.state, p.runtime, p.config, p.work)
	return append(found, p.secrets.commandLines(p.processes())...)
}

// files returns the files of the directories that have a secret, but for those in directories
// with the names of except.
func (s *secrets) files(except []string, dirs ...string) (found []string) {
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case os.IsNotExist(err): // removed meanwhile
				return nil
			case err != nil:
				return err
			case d.IsDir() && slices.Contains(except, d.Name()):
				return filepath.SkipDir
			case !d.Type().IsRegular() || strings.HasSuffix(path, ".token"):
				return nil
			}
			content, err := os.ReadFile(path)
			if err != nil && !os.IsNotExist(err) {
				return err
			}
			if value := s.in(content); value != "" {
				found = append(found, path+" has the secret "+value)
			}
			return nil
		})
		if err != nil {
			found = append(found, err.Error())
		}
	}
	return found
}

func (s *secrets) commandLines(pids []int) (found []string) {
	for _, pid := range pids {
		// A process that has exited has none.
		line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if value := s.in(line); value != "" {
			found = append(found, fmt.Sprintf("the command line of process %d has the secret %s", pid, value))
		}
	}
	return found
}

// nowhere is the command nowhere VALUE...: no file of the script's thv has a value now, also
// not those that hold secrets on purpose, which may be encrypted.
func nowhere(ts *testscript.TestScript, _ bool, args []string) {
	p, values := here(ts), secrets{}
	values.add(args...)
	if found := values.files(nil, p.state, p.runtime, p.config); found != nil {
		ts.Fatalf("%s", strings.Join(found, "\n"))
	}
}

func checkLeaks(ts *testscript.TestScript) {
	if found := here(ts).leaks(); found != nil {
		ts.Fatalf("%s", strings.Join(found, "\n"))
	}
}

// checkOutput fails the script if the output of a command has a secret. What a server sends
// is not thv's: the commands of `thv mcp` show it.
func checkOutput(ts *testscript.TestScript, args []string) {
	if len(args) > 0 && args[0] == "mcp" {
		return
	}
	for _, stream := range []string{"stdout", "stderr"} {
		if value := here(ts).secrets.in([]byte(ts.ReadFile(stream))); value != "" {
			ts.Fatalf("the %s of thv has the secret %s", stream, value)
		}
	}
}

func TestLeaks(t *testing.T) {
	t.Parallel()
	p, err := newPlace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(p.state)) })
	p.work = t.TempDir()
	p.secrets.add("eyJhbGciOiJub25lIn0.the-claims-of-a-token.the-signature", "opaque")
	write := func(dir, name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(p.state, "thv/secrets/a.json", "opaque")
	write(p.state, "thv/oauth/logins/a.json", `{"version":2}`)
	write(p.work, "a.token", "opaque")
	write(p.state, "thv/workloads/a/proxy.log", "eyJhbGciOiJub25lIn0")
	if got := p.leaks(); got != nil {
		t.Errorf("found %v", got)
	}
	write(p.state, "thv/workloads/a/audit.log", `"x":"the-claims-of-a-token"`)
	write(p.config, "config", "an opaque token")
	write(p.work, "calls.log", "the-signature")
	if got := p.leaks(); len(got) != 3 {
		t.Errorf("found %v", got)
	}
}
