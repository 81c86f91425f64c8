package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/cli/clitest"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func TestServerVersionsAreShown(t *testing.T) {
	app := clitest.LivingApp(t)
	server := clitest.RemoteServer(t, nil)
	clitest.Must(t, app, "run", server, "--name", "one")
	is := func(args []string, member string, want *workload.Speaks) {
		t.Helper()
		var got map[string]json.RawMessage
		if err := json.Unmarshal([]byte(clitest.Must(t, app, args...)), &got); err != nil {
			t.Fatal(err)
		}
		var speaks *workload.Speaks
		if raw := got[member]; raw != nil && json.Unmarshal(raw, &speaks) != nil {
			t.Errorf("%v: %s", args, raw)
		}
		if diff := cmp.Diff(want, speaks); diff != "" {
			t.Errorf("%v:\n%s", args, diff)
		}
	}
	shows := func(args []string, lines ...string) {
		t.Helper()
		got := clitest.Must(t, app, args...)
		for _, line := range lines {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("%v prints %q, without %q", args, got, line)
			}
		}
	}
	session := []string{"mcp", "info", "one", "--protocol", "session"}
	// A server over HTTP is probed for the stateless era when it starts.
	known := &workload.Speaks{Session: "2025-11-25", Stateless: "no", Translated: []string{"stateless"}}
	is([]string{"status", "one", "-o", "json"}, "speaks", known)
	shows([]string{"status", "one"}, "Server speaks:   with sessions: 2025-11-25\n                 stateless: no (the gateway translates for such clients)")
	shows(session, "protocol version\t2025-11-25\nserver speaks\twith sessions: 2025-11-25; stateless: no (the gateway translates for such clients)\ntranslated\tno\nserver\tremote 1")

	shows([]string{"mcp", "info", "one"}, "protocol version\t2026-07-28\nserver speaks\twith sessions: 2025-11-25; stateless: no (the gateway translates for such clients)\ntranslated\tyes, by the gateway\nserver\tremote 1")
	is([]string{"mcp", "info", "one", "-o", "json"}, "serverSpeaks", known)
	is([]string{"status", "one", "-o", "json"}, "speaks", known)
	is([]string{"mcp", "info", server, "-o", "json"}, "serverSpeaks", nil)
	var all []workload.Status
	if err := json.Unmarshal([]byte(clitest.Must(t, app, "list", "-o", "json")), &all); err != nil || len(all) != 1 || !cmp.Equal(all[0].Speaks, known) {
		t.Errorf("list: %+v, %v", all, err)
	}
	clitest.Must(t, app, "stop", "one")
	is([]string{"status", "one", "-o", "json"}, "speaks", nil)
}
