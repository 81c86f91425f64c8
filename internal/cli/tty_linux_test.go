package cli_test

import (
	"os"
	"testing"

	"github.com/toolhaven/toolhaven/internal/cli"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
	"github.com/toolhaven/toolhaven/internal/cli/ptytest"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func TestLogs_ControlSequences(t *testing.T) {
	a := clitest.App(t)
	keep(t, a, inContainer("x"), workload.Stopped, "")
	store, err := a.Store()
	if err != nil {
		t.Fatal(err)
	}
	const said = "\x1b[32mgrün\x1b[0m\n\x1b]0;no end"
	if err := os.WriteFile(store.ServerLog("x"), []byte(said), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := clitest.Must(t, a, "logs", "x"); got != said {
		t.Errorf("into a pipe: %q", got)
	}
	s := ptytest.New(t)
	a.Out = s.TTY
	root := cli.Root(a)
	root.SetArgs([]string{"logs", "x"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Shows(t, "no end"); got != "grün\n]0;no end" {
		t.Errorf("on a terminal: %q", got)
	}
}
