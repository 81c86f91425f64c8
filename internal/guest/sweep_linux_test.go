package guest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The environment of a process inside execve(2) cannot be read, or not in whole if it
// takes several reads. A sweep must find such a process, too: this one executes itself
// all the time.
func TestSweep_ProcessInsideExec(t *testing.T) {
	const mark = "THV_SWEEP_TEST=here"
	for range 20 {
		cmd := exec.Command("sh", "-c", `echo 'exec sh "$0"' > "$0"; exec sh "$0"`, t.TempDir()+"/again")
		cmd.Env = append(cmd.Environ(), "FILLER="+strings.Repeat("x", 100_000), mark)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = cmd.Wait()
		}()
		sweep(mark)
		within(t, patience, "the end of what was swept", func() { <-ended })
	}
}

func TestEnvironment_NotWholeAfterExec(t *testing.T) {
	t.Parallel()
	const mark = "THV_SWEEP_TEST=read"
	cmd := exec.Command("sh", "-c", "read word; exec sleep 1000")
	cmd.Env = append(cmd.Environ(), mark)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	proc := fmt.Sprintf("/proc/%d/", cmd.Process.Pid)
	f, err := os.Open(proc + "environ")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	again := func() (env []byte, whole bool) {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		return environment(f)
	}
	eventually(t, "a whole environment", func() bool {
		env, whole := again()
		return whole && carries(env, mark)
	})
	if _, err := io.WriteString(stdin, "go\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another program", func() bool {
		name, err := os.ReadFile(proc + "comm")
		return err == nil && string(name) == "sleep\n"
	})
	if env, whole := again(); whole {
		t.Errorf("the environment of the earlier program counts as whole: %d bytes", len(env))
	}
}
