//go:build linux

package cli_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
	"github.com/toolhaven/toolhaven/test/local"
)

func mustBeFree(t *testing.T, port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Error("the port is still held:", err)
		return
	}
	l.Close()
}

// The state directory is deleted under a gateway that works: it is found again, and
// stop ends it.
func TestAGatewayWhoseStateIsDeletedIsFoundAgain(t *testing.T) {
	app := clitest.LivingApp(t)
	url := clitest.Must(t, app, "run", clitest.RemoteServer(t, nil), "--name", "one")
	port := statusOf(t, app, "one").Port
	state := os.Getenv("XDG_STATE_HOME")
	for _, lost := range []string{filepath.Join(state, "thv", "run"), state} {
		if err := os.RemoveAll(lost); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(clitest.LongEnough); !strings.HasPrefix(clitest.Must(t, app, "list"), "one\trunning\t"); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("without %s the gateway is not listed again: %s", lost, clitest.Must(t, app, "list"))
			}
		}
	}
	if got := clitest.Must(t, app, "restart", "one"); got != url {
		t.Errorf("restart prints %q, run printed %q", got, url)
	}
	clitest.Must(t, app, "stop", "one")
	mustBeFree(t, port)
}

// One that is stopped by a signal restores nothing: doctor lists it, stop, rm and a new
// run of the same workload end it.
func TestAFrozenGatewayWhoseStateIsDeletedIsEnded(t *testing.T) {
	app := clitest.LivingApp(t)
	server := clitest.RemoteServer(t, nil)
	for _, end := range [][]string{{"stop", "one"}, {"rm", "one"}, {"stop", "--all"}, {"rm", "--all"}, {"run", server, "--name", "one"}} {
		clitest.Must(t, app, "run", server, "--name", "one")
		st := statusOf(t, app, "one")
		local.Freeze(t, st.PID)
		if err := os.RemoveAll(os.Getenv("XDG_STATE_HOME")); err != nil {
			t.Fatal(err)
		}
		stdout, _, code := clitest.Run(t, app, "doctor")
		if want := "process " + strconv.Itoa(st.PID) + " is its gateway"; code != base.ExitFailure || !strings.Contains(stdout, want) || !strings.Contains(stdout, "thv stop one") {
			t.Errorf("doctor: exit code %d, %s", code, stdout)
		}
		clitest.Must(t, app, end...)
		if end[0] == "run" {
			clitest.Must(t, app, "rm", "one")
		}
		mustBeFree(t, st.Port)
	}
}
