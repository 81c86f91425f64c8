//go:build unix

package cli_test

import (
	"os/signal"
	"syscall"
	"testing"

	"github.com/toolhaven/toolhaven/internal/cli/clitest"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func TestSIGHUPEndsAForegroundRun(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored here, as below nohup, and so it is in the programs that are started")
	}
	app := clitest.LivingApp(t)
	server := clitest.RemoteServer(t, nil)
	p := clitest.Start(t, "run", "-f", server, "--name", "one")
	waitForRun(t, app, "one")
	if err := p.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for range p.Lines { // until it ends
	}
	_ = p.Cmd.Wait() // the state is looked at
	if st := statusOf(t, app, "one"); st.State != workload.Stopped {
		t.Errorf("it is %s (%s)", st.State, st.Reason)
	}
}
