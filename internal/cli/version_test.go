package cli

import "testing"

func TestTheVersionIsAFlagToo(t *testing.T) {
	command, _, _ := thv(t, testApp(t), "version")
	flag, stderr, code := thv(t, testApp(t), "--version")
	if flag != command || flag == "" || stderr != "" || code != 0 {
		t.Errorf("--version is %q (%s), exit code %d; version is %q", flag, stderr, code, command)
	}
}
