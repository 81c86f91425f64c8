//go:build unix

package workload

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

func processAlive(p *os.Process) bool { return p.Signal(syscall.Signal(0)) == nil }

func TestAStoppedGatewayIsTheTruthAndIsEnded(t *testing.T) {
	m, _ := testManager(t)
	st := mustRun(t, m, "a")
	if err := syscall.Kill(st.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	now, err := m.Status(t.Context(), "a")
	if err != nil || now.State != Unresponsive || now.PID != st.PID {
		t.Errorf("status of a stopped gateway: %+v, %v", now, err)
	}
	if err := m.Stop(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if !portIsFree(t, st.Server) {
		t.Error("stop left the port held")
	}
}

func TestALongPathStillHasAControlSocket(t *testing.T) {
	m, s := testManager(t)
	s.state = t.TempDir() + "/" + strings.Repeat("x", 90)
	t.Setenv("TEST_STATE", s.state)
	mustRun(t, m, "a")
	if err := m.Remove(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}
