package base

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/workload"
)

func TestServerVersions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		speaks     *workload.Speaks
		lines      []string
		translated string // for a session client
	}{
		{nil, nil, ""},
		{
			&workload.Speaks{Session: "unknown", Stateless: "2026-07-28"},
			[]string{"with sessions: not known, as no such client has connected yet", "stateless: 2026-07-28"}, "unknown",
		},
		{
			&workload.Speaks{Session: "no", Stateless: "2026-07-28", Translated: []string{"session"}},
			[]string{"with sessions: no (the gateway translates for such clients)", "stateless: 2026-07-28"}, "yes, by the gateway",
		},
		{
			&workload.Speaks{Session: "2025-11-25", Stateless: "unknown"},
			[]string{"with sessions: 2025-11-25", "stateless: not known, as no such client has connected yet"}, "no",
		},
	} {
		if diff := cmp.Diff(test.lines, ServerVersions(test.speaks)); diff != "" {
			t.Errorf("%+v:\n%s", test.speaks, diff)
		}
		if test.speaks == nil {
			continue
		}
		if got := Translated(test.speaks, "2025-11-25"); got != test.translated {
			t.Errorf("%+v: translated %q, want %q", test.speaks, got, test.translated)
		}
	}
}
