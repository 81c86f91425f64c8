//go:build unix

package cli

import (
	"syscall"
	"testing"

	"github.com/toolhaven/toolhaven/internal/workload"
)

func TestSIGHUPEndsAForegroundRun(t *testing.T) {
	app := livingApp(t)
	server := remoteServer(t, nil)
	p := startProgram(t, "run", "-f", server, "--name", "one")
	waitForRun(t, app, "one")
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for range p.lines { // until it ends
	}
	_ = p.cmd.Wait() // the state is looked at
	if st := statusOf(t, app, "one"); st.State != workload.Stopped {
		t.Errorf("it is %s (%s)", st.State, st.Reason)
	}
}
