//go:build unix

package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func processAlive(p *os.Process) bool { return p.Signal(syscall.Signal(0)) == nil }

func TestAStoppedGatewayIsTheTruthAndIsEnded(t *testing.T) {
	m, _ := testManager(t)
	st := mustRun(t, m, "a")
	freeze(t, st.PID)
	now, err := m.Status(t.Context(), "a")
	if err != nil || now.State != Unresponsive || now.PID != st.PID {
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
	freeze(t, st.PID)
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

// freeze stops a process and waits until it has stopped: the signal is delivered
// later than kill returns.
func freeze(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		// proc(5): pid (comm) state ...; elsewhere there is nothing to look at.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if _, rest, ok := strings.Cut(string(stat), ") "); ok && rest[0] == 'T' {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d does not stop: %s", pid, stat)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestALongPathStillHasAControlSocket(t *testing.T) {
	m, s := testManager(t)
	s.state = t.TempDir() + "/" + strings.Repeat("x", 90)
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
	waitState(t, m, "a", Failed)
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
