// Package render writes to people and to programs: tables, JSON, progress, colours and
// prompts, on a terminal or into a pipe. Texts of others are shown without control
// sequences.
package render

import (
	"os"

	"golang.org/x/term"
)

// IsTerminal reports whether w is a terminal.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// isDumb reports whether the terminal has no control sequences (TERM=dumb).
func isDumb(env func(string) string) bool { return env("TERM") == "dumb" }
