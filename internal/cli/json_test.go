package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// done is what of an object a test looks at.
type done struct {
	Name      string
	State     workload.State
	URL       string
	Workloads []string
}

func TestJSON_OfCommandsThatChangeWorkloads(t *testing.T) {
	app := clitest.LivingApp(t)
	server := clitest.RemoteServer(t, nil)
	says := func(line string, want ...done) {
		t.Helper()
		stdout, stderr, code := clitest.Run(t, app, append(strings.Fields(line), "-o", "json")...)
		got := make([]done, 1)
		into := any(&got[0]) // one name, one object
		if strings.HasPrefix(stdout, "[") {
			into = &got
		}
		if err := json.Unmarshal([]byte(stdout), into); err != nil || code != base.ExitOK {
			t.Fatalf("thv %s: exit code %d, %v, %q, %q", line, code, err, stdout, stderr)
		}
		if _, many := into.(*[]done); many != (len(want) != 1 || strings.Contains(line, "--")) {
			t.Errorf("thv %s prints %s", line, stdout)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("thv %s:\n%s", line, diff)
		}
	}
	says("group create work", done{Name: "work", Workloads: []string{}})
	urls := map[string]string{}
	for _, name := range []string{"one", "two"} {
		urls[name] = strings.TrimSpace(clitest.Must(t, app, "run", server, "--name", name, "--group", "work"))
	}
	one := func(name string, state workload.State) done { return done{Name: name, State: state, URL: urls[name]} }
	says("stop one", one("one", workload.Stopped))
	says("stop one", one("one", workload.Stopped)) // it was not running
	says("status one", one("one", workload.Stopped))
	says("start one", one("one", workload.Running))
	says("restart one", one("one", workload.Running))
	says("restart one two", one("one", workload.Running), one("two", workload.Running))
	says("stop --group work", one("one", workload.Stopped), one("two", workload.Stopped))
	says("start --all", one("one", workload.Running), one("two", workload.Running))
	says("rm one", one("one", workload.Removed))
	says("list --all", one("two", workload.Running))
	clitest.Must(t, app, "group", "create", "rest")
	says("group rm work rest --with-workloads", done{Name: "work", Workloads: []string{"two"}}, done{Name: "rest", Workloads: []string{}})
}

func TestJSON_LeavesOutFailures(t *testing.T) {
	app := clitest.LivingApp(t)
	clitest.Must(t, app, "run", clitest.RemoteServer(t, nil), "--name", "one")
	for _, command := range []string{"stop", "restart", "start", "status", "rm"} {
		if stdout, stderr, code := clitest.Run(t, app, command, "none", "-o", "json"); stdout != "" || code != base.ExitNotFound || !strings.Contains(stderr, `no such workload: "none"`) {
			t.Errorf("%s: exit code %d, %q, %q", command, code, stdout, stderr)
		}
		stdout, stderr, code := clitest.Run(t, app, command, "none", "one", "-o", "json")
		var got []done
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || len(got) != 1 || got[0].Name != "one" || code != base.ExitFailure || !strings.Contains(stderr, `no such workload: "none"`) {
			t.Errorf("%s: exit code %d, %q, %q", command, code, stdout, stderr)
		}
		if stdout, _, code := clitest.Run(t, app, command, "none", "nobody", "-o", "json"); stdout != "[]\n" || code != base.ExitFailure {
			t.Errorf("%s: exit code %d, %q", command, code, stdout)
		}
	}
}
