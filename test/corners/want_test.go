//go:build integration

package corners

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// unequal is for what clients show each in its own way: it is only compared to
// what the same client saw directly.
var unequal = new(any)

// want is what every client sees in each step at a maker's server, whatever its
// version.
func want(c client, maker string) []step {
	words := wordsOf(maker)
	return []step{
		{"server", map[string]any{"name": "corners", "version": "1.2.3", "protocol": c.version, "instructions": "Ask for anything."}},
		{"tools", list("became", "echo", "elicit", "enough", "fail", "grow", "grown", "log", "progress", "region", "roots", "sample", "spoken", "touch", "wait")},
		{"tool", unequal},
		{"resources", list("corner://fixed", "corner://kept/{key}")},
		{"prompt", "Hello, Ada"},
		{"completion", list("Ada", "Alan")},
		{"echo", unequal},
		{"structured", map[string]any{"n": 9007199254740991.0, "text": "ä€ \"\n\u2028<>&"}},
		{"region", unequal},
		{"spoken", c.version},
		{"failing tool", "error: it failed, as asked"},
		{"unknown tool", words.unknownTool},
		{"progress", list("1/5 step 1", "2/5 step 2", "3/5 step 3", "4/5 step 4", "5/5 step 5", "done")},
		{"log", list("info corner KEY", "warning corner KEY", "error corner KEY")},
		{"sample", "assistant none: re: hello?"},
		{"elicit", "accept Ada"},
		{"roots", "home file:///home/ada\n"},
		{"resource", "what corner://fixed holds"},
		{"missing resource", words.missing},
		{"updated", "corner://kept/KEY"},
		{"unsubscribed", ""},
		{"list changed", "changed"},
		{"cancelled", map[string]any{"server": "it is cancelled", "client": true}},
		{"afterwards", "yes"},
	}
}

// words are the texts that a maker's SDK produces itself.
type words struct{ unknownTool, missing any }

func wordsOf(maker string) words {
	invalid := func(message string) any { return map[string]any{"code": -32602.0, "message": message} }
	switch maker {
	case typescript1: // it writes the code of an error into its message, and has it for a result of the tool
		return words{"error: MCP error -32602: Tool no such tool not found", invalid("MCP error -32602: Resource not found")}
	case typescript2:
		return words{invalid("Tool no such tool not found"), invalid("Resource not found")}
	default: // the programs' own texts
		return words{invalid(`unknown tool "no such tool"`), invalid("Resource not found")}
	}
}

// spoken checks the version of the requests at the server. It is the only thing in which
// the results directly and through thv may differ, and is removed from them.
func (s server) spoken(t *testing.T, saw []step) []step {
	t.Helper()
	for _, step := range saw {
		if step.Step != "spoken" {
			continue
		}
		version, _ := step.Got.(string)
		switch modern := version >= statelessVersion; {
		case version == "":
			t.Errorf("the server received no version: %v", step.Got)
		case s.eras == sessions && modern, s.eras == stateless && !modern:
			t.Errorf("the server received version %s", version)
		}
		t.Logf("the server received version %s", version)
	}
	return withoutSpoken(saw)
}

func withoutSpoken(saw []step) []step {
	return slices.DeleteFunc(slices.Clone(saw), func(s step) bool { return s.Step == "spoken" })
}

func list(all ...any) []any { return all }

// check compares what a client saw at a maker's server to what it is to see: every
// step, except those that it cannot do, which must then be missing or different.
func (c client) check(maker string, want, got []step) (faults []string) {
	at := map[string]any{}
	for _, s := range got {
		at[s.Step] = s.Got
	}
	known := 0
	for _, w := range want {
		saw, ok := at[w.Step]
		if ok {
			known++
		}
		reason := cannot(c, maker, w.Step)
		as := ok && (w.Got == unequal || cmp.Equal(w.Got, saw))
		switch {
		case as && reason != "":
			faults = append(faults, fmt.Sprintf("%s: it can, but is said not to: %s", w.Step, reason))
		case !as && reason == "" && !ok:
			faults = append(faults, w.Step+": it did not do that")
		case !as && reason == "":
			faults = append(faults, fmt.Sprintf("%s: wanted (-), saw (+):\n%s", w.Step, cmp.Diff(w.Got, saw)))
		}
	}
	if known != len(got) {
		faults = append(faults, fmt.Sprintf("it printed %d steps, of which %d are known", len(got), known))
	}
	return faults
}
