package render

import (
	"os"

	"golang.org/x/term"
)

// isTerminal tells whether w shows to a person.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
