package cli_test

import (
	"testing"

	"github.com/toolhaven/toolhaven/internal/cli/clitest"
)

func TestVersionFlag(t *testing.T) {
	command, _, _ := clitest.Run(t, clitest.App(t), "version")
	flag, stderr, code := clitest.Run(t, clitest.App(t), "--version")
	if flag != command || flag == "" || stderr != "" || code != 0 {
		t.Errorf("--version is %q (%s), exit code %d; version is %q", flag, stderr, code, command)
	}
}
