//go:build integration

package scenario

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// engine is a Docker engine of the test's own, with a socket, data and network of its own,
// so that the test can stop it.
type engine struct {
	dir    string
	socket string
	cmd    *exec.Cmd
	exited chan struct{}
}

func newEngine(t *testing.T) *engine {
	t.Helper()
	dir, err := os.MkdirTemp("", "thv-engine")
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{dir: dir, socket: filepath.Join(dir, "docker.sock")}
	t.Cleanup(func() {
		e.stop(syscall.SIGTERM)
		// The engine mounts below its directory and unmounts what it can.
		exec.Command("sh", "-c", `grep -o " $0[^ ]*" /proc/mounts | sort -r | xargs -r umount -l`, dir).Run()
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the engine's directory: %v", err)
		}
	})
	e.start(t)
	return e
}

func (e *engine) start(t *testing.T) {
	t.Helper()
	e.forgetContainerd(t)
	log, err := os.OpenFile(filepath.Join(e.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	e.cmd = exec.Command("dockerd", "--host", "unix://"+e.socket, "--data-root", filepath.Join(e.dir, "data"),
		"--exec-root", filepath.Join(e.dir, "exec"), "--pidfile", filepath.Join(e.dir, "pid"),
		"--bridge", "none", "--iptables=false", "--ip6tables=false",
		// No mounts of layers, which would outlive an engine that is killed.
		"--storage-driver", "vfs")
	e.cmd.Stdout, e.cmd.Stderr = log, log
	// A network of its own: an engine without a bridge removes the bridge of the
	// engine that the machine has.
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWNET}
	if err := e.cmd.Start(); err != nil {
		t.Fatalf("start an engine of the test's own: %v", err)
	}
	e.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) { cmd.Wait(); close(exited) }(e.cmd, e.exited)
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		if e.docker("version").Run() == nil {
			return
		}
		if time.Now().After(deadline) {
			b, _ := os.ReadFile(log.Name())
			t.Fatalf("the test's own engine does not answer:\n%s", b)
		}
	}
}

// forgetContainerd removes the note of a containerd that died with its engine.
// Where orphans are not reaped it is a zombie, which dockerd treats as alive. It ends by
// the kernel's signal, after its engine.
func (e *engine) forgetContainerd(t *testing.T) {
	t.Helper()
	note := filepath.Join(e.dir, "exec", "containerd", "containerd.pid")
	b, err := os.ReadFile(note)
	if err != nil {
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatalf("%s: %v", note, err)
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if state, _, ok := stat(pid); !ok || state == 'Z' {
			os.Remove(note)
			return
		}
	}
}

func (e *engine) docker(args ...string) *exec.Cmd {
	return exec.Command("docker", append([]string{"--host", "unix://" + e.socket}, args...)...)
}

func (e *engine) stop(sig syscall.Signal) {
	e.cmd.Process.Signal(sig)
	select {
	case <-e.exited:
	case <-time.After(patience):
		e.cmd.Process.Kill()
		<-e.exited
	}
}

// The engine exits and returns while a workload runs.
func TestTheEngineRestarts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run a container engine of the test's own")
	}
	e := newEngine(t)
	p := goTestPlace(t)
	t.Setenv("THV_ENGINE", "unix://"+e.socket)
	t.Setenv("DOCKER_HOST", "unix://"+e.socket)
	url := p.start(t, "go://../servers/probe", "--name", "restarted", "--permission-profile", "none")

	for _, how := range []struct {
		name   string
		signal syscall.Signal
	}{{"stopped", syscall.SIGTERM}, {"killed", syscall.SIGKILL}} {
		t.Run(how.name, func(t *testing.T) {
			e.stop(how.signal)
			// While it is down, the state is correct and reported without a long wait.
			if st := p.status(t, "restarted"); st.State == "running" {
				// The gateway may not have noticed yet; it must within seconds.
				p.becomes(t, "restarted", "degraded")
			}
			if err := echo(t.Context(), url); err == nil {
				t.Error("a call was answered although no engine runs")
			}
			e.start(t)
			p.becomes(t, "restarted", "running")
			if err := echo(t.Context(), url); err != nil {
				t.Errorf("the first call after the engine's return: %v", err)
			}
			if ids, err := p.containers(); err != nil || len(ids) != 1 {
				t.Errorf("containers %v, %v; want one", ids, err)
			}
		})
	}

	t.Run("stop while it is down", func(t *testing.T) {
		e.stop(syscall.SIGTERM)
		stop := exec.Command(thvPath(), "stop", "restarted")
		stop.Env = append(os.Environ(), p.vars()...)
		out, err := stop.CombinedOutput()
		if err == nil {
			t.Errorf("stop reports success, but the container cannot have been removed:\n%s", out)
		} else if !strings.Contains(string(out), e.socket) {
			t.Errorf("stop does not name the engine that it cannot reach:\n%s", out)
		}
		e.start(t)
		p.thv(t, "stop", "restarted")
		if ids, err := p.containers(); err != nil || len(ids) != 0 {
			t.Errorf("containers %v, %v; want none", ids, err)
		}
	})
}

// becomes waits until a workload has a state.
func (p *place) becomes(t *testing.T, name, state string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		st := p.status(t, name)
		if string(st.State) == state {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %s (%s) after %s; want %s", name, st.State, st.Reason, patience, state)
		}
	}
}

// echo is one new client with one call.
func echo(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "echo", Version: "1"}, nil).Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1}, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	got, err := textOf(ctx, session, "echo", map[string]any{"text": "hi"}, nil)
	if err == nil && got != "hi" {
		err = fmt.Errorf("echo answered %q", got)
	}
	return err
}
