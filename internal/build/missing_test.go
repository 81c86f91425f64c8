package build

import (
	"errors"
	"testing"
)

func TestMissingProgram(t *testing.T) {
	for text, want := range map[string]string{
		`OCI runtime create failed: runc create failed: unable to start container process: exec: "node": executable file not found in $PATH: unknown`: "node",
		"crun: executable file `python3` not found in $PATH: No such file or directory: OCI runtime attempted to invoke a command that was not found": "python3",
		"npm error code E404": "",
	} {
		if got := missingProgram(errors.New(text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
