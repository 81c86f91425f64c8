package base_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Escape codes that set a terminal's title, write its clipboard and clear it, and a
// line that is not ours.
const steering = "\x1b]0;owned\x07\x1b]52;c;eA==\x07\x1b[2J\u009b31m\r\nURL: http://evil.example"

func TestControlSequencesAreRemoved(t *testing.T) {
	a := clitest.App(t)
	var errOut strings.Builder
	a.Err = &errOut
	base.PrintState(a, &workload.Status{Name: "x", State: workload.Running, Server: "s" + steering})
	for what, text := range map[string]string{
		"an error":           base.Sentence(errors.New("the server says: " + steering)),
		"a usage error":      base.Sentence(base.Usage("%s", steering)),
		"that it is running": errOut.String(),
	} {
		if strings.ContainsAny(text, "\x1b\x07\r\u009b") {
			t.Errorf("%s steers: %q", what, text)
		}
	}
	if strings.Count(errOut.String(), "\n") != 1 {
		t.Errorf("the server's name has lines of its own: %q", errOut.String())
	}
}
