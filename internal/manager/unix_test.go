//go:build unix

package manager

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/toolhaven/toolhaven/internal/workload"
	"github.com/toolhaven/toolhaven/test/local"
)

func processAlive(p *os.Process) bool { return p.Signal(syscall.Signal(0)) == nil }

func TestAFrozenGatewayIsUnresponsiveAndIsEnded(t *testing.T) {
	m, _ := testManager(t)
	st := mustRun(t, m, "a")
	local.Freeze(t, st.PID)
	now, err := m.Status(t.Context(), "a")
	if err != nil || now.State != workload.Unresponsive || now.PID != st.PID {
		t.Errorf("status of a stopped gateway: %+v, %v", now, err)
	}
	if err := m.Stop(t.Context(), "a", nil); err != nil {
		t.Fatal(err)
	}
	if !portIsFree(t, st.Server) {
		t.Error("stop left the port held")
	}
}

func TestAnInterruptKillsNoGatewayThatDoesNotAnswer(t *testing.T) {
	m, s := testManager(t)
	st := mustRun(t, m, "a")
	local.Freeze(t, st.PID)
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	err := m.Stop(ctx, "a", nil)
	if !errors.Is(err, ErrInterrupted) || !contains(err.Error(), "left as it is") {
		t.Errorf("got %v", err)
	}
	if o, err := s.Owner("a"); err != nil || o == nil || o.PID != st.PID {
		t.Errorf("the gateway was killed: %+v, %v", o, err)
	}
}

func TestALongPathStillHasAControlSocket(t *testing.T) {
	m, s := testManager(t)
	*s = *OpenStore(t.TempDir()+"/"+strings.Repeat("x", 90), s.runtime)
	t.Setenv("TEST_STATE", s.state)
	mustRun(t, m, "a")
	if err := m.Remove(t.Context(), "a", nil); err != nil {
		t.Error(err)
	}
}

func TestAnotherProgramUnderTheOldPIDIsNeverTouched(t *testing.T) {
	m, s := testManager(t)
	st := mustRun(t, m, "a")
	kill(t, st.PID)
	waitState(t, m, "a", workload.Failed)
	// The dead owner's note now names a stranger.
	stranger := exec.Command("sleep", "60")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stranger.Process.Kill(); stranger.Wait() })
	note, _ := json.Marshal(ownerInfo{Nonce: "x", Socket: s.socketPath("a", "x"), PID: stranger.Process.Pid})
	if err := os.WriteFile(s.infoPath("a"), note, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.Remove(t.Context(), "a", nil); err != nil {
		t.Fatal(err)
	}
	if !processAlive(stranger.Process) {
		t.Error("rm killed a stranger")
	}
}
