package guest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A process that is just becoming another program does not show its environment, or
// not all of one that takes several reads, and is not to be missed for that: this one
// does it all the time.
func TestSweepOfWhatIsExecuting(t *testing.T) {
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

func TestAnEnvironmentIsNotWholeOnceItsProcessIsAnotherProgram(t *testing.T) {
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
		t.Errorf("what was read of the program before is whole: %d bytes", len(env))
	}
}
