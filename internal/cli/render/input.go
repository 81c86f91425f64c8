package render

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// answers are the lines that a person types at a terminal.
type Input struct {
	in    *os.File
	lines *bufio.Reader
	// typed is where the line comes that nobody waited for to its end.
	typed chan answer
}

type answer struct {
	text string
	err  error
}

func NewInput(in *os.File) *Input { return &Input{in: in, lines: bufio.NewReader(in)} }

// read reads one line. When ctx ends (Ctrl-C), the terminal shows again what is typed;
// the read itself goes on until the next line, which is the answer to what is asked
// then.
func (a *Input) Read(ctx context.Context, hidden bool) (string, error) {
	fd := int(a.in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	if a.typed == nil {
		typed := make(chan answer, 1)
		a.typed = typed
		go func() { typed <- a.next(fd, hidden) }()
	}
	select {
	case got := <-a.typed:
		a.typed = nil
		return got.text, got.err
	case <-ctx.Done():
		return "", errors.Join(ctx.Err(), term.Restore(fd, before))
	}
}

func (a *Input) next(fd int, hidden bool) answer {
	if hidden {
		b, err := term.ReadPassword(fd)
		return answer{string(b), err}
	}
	line, err := a.lines.ReadString('\n')
	if errors.Is(err, io.EOF) && line != "" {
		err = nil
	}
	return answer{strings.TrimSpace(line), err}
}
