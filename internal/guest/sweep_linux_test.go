package guest

import (
	"os/exec"
	"testing"
)

// A process that is just becoming another program does not show its environment, and
// is not to be missed for that: this one does it all the time.
func TestSweepOfWhatIsExecuting(t *testing.T) {
	const mark = "THV_SWEEP_TEST=here"
	for range 20 {
		cmd := exec.Command("sh", "-c", `echo 'exec sh "$0"' > "$0"; exec sh "$0"`, t.TempDir()+"/again")
		cmd.Env = append(cmd.Environ(), mark)
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
