package build

import (
	"strings"
)

// stepOutput keeps the end of the output of the build step that runs last, without
// the builder's own lines: those repeat whole commands.
type stepOutput struct{ text tail }

func (o *stepOutput) line(text string) {
	lower := strings.ToLower(text)
	switch {
	case strings.HasPrefix(lower, "step "):
		o.text.Reset()
	case strings.HasPrefix(strings.TrimLeft(lower, " "), "--"), strings.HasPrefix(lower, "removing intermediate container"):
	default:
		_, _ = o.text.Write([]byte(text + "\n")) // memory, which takes everything
	}
}

// installError is a failed installation: in its first line what failed, then
// the end of the output meanwhile.
type installError struct {
	err    error
	output string
}

func (e *installError) Error() string {
	head, rest, _ := strings.Cut(e.err.Error(), "\n")
	if e.output != "" {
		rest = e.output
	}
	return strings.TrimRight(lastLines(head)+"\n"+lastLines(rest), "\n")
}

func (e *installError) Unwrap() error { return e.err }
