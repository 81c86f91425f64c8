package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// A stop at any moment of a start leaves nothing that runs: it ends the start, or the
// workload that was started.
func TestStop_EarlyInAStart(t *testing.T) {
	app := clitest.LivingApp(t)
	server := clitest.RemoteServer(t, nil)
	store, err := app.Store()
	if err != nil {
		t.Fatal(err)
	}
	early := 0
	stopsIt := func(name, how string, after time.Duration, args ...string) {
		t.Helper()
		starting := clitest.Start(t, args...)
		for deadline := time.Now().Add(clitest.LongEnough); ; time.Sleep(time.Millisecond) {
			// The moment at which a stop can first find the workload.
			if _, err := store.Get(name); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s was never stored", name)
			}
		}
		time.Sleep(after) // the moment varies; what must hold at any of them is checked below
		_, stopSays, stopped := clitest.Run(t, app, how, name)
		var said []string
		for line := range starting.Lines {
			said = append(said, line)
		}
		ended := starting.Cmd.Wait()
		if strings.Contains(strings.Join(said, "\n"), "while it was starting") {
			early++
		}
		all := clitest.Must(t, app, "list", "-o", "json")
		var states []workload.Status
		if err := json.Unmarshal([]byte(all), &states); err != nil {
			t.Fatal(err)
		}
		for _, st := range states {
			if st.Name == name && (st.State != workload.Stopped || how == "rm") {
				t.Errorf("after %v: %s is %s (%s); %s exited with %d, %q; the start with %v, %q", after, name, st.State, st.Reason, how, stopped, stopSays, ended, said)
			}
		}
		if stopped != base.ExitOK {
			t.Errorf("after %v: %s: exit code %d, %q", after, how, stopped, stopSays)
		}
	}
	for i := range 8 {
		after := time.Duration(i) * 5 * time.Millisecond
		for _, how := range []string{"stop", "rm"} {
			name := fmt.Sprintf("%s-%d", how, i)
			args := []string{"run", server, "--transport", "streamable-http", "--name", name}
			if i%2 == 1 {
				args = append(args, "--foreground")
			}
			stopsIt(name, how, after, args...)
		}
	}
	if early == 0 {
		t.Error("no stop came while a workload was starting")
	}
	if _, err := os.Stat(store.Dir("rm-0")); !os.IsNotExist(err) {
		t.Errorf("what was removed is there: %v", err)
	}
	// Stopped early or not, each can be started again.
	clitest.Must(t, app, "start", "stop-0")
}
